"""Finds the stage of a loader that is slow, the resource that limits it, and changes that help.

Start with `investigation.py`, which makes every measurement and conclusion of one session;
`diagnose.py` runs the sessions of the command, and `diagnosis.py` holds their results.
"""
