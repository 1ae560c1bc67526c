"""Finds the slow stage of a loader, the resource that limits it, and changes that help.

Start with `investigation.py`, which runs every measurement of a session and draws the
conclusions; `diagnose.py` runs the sessions of the command, and `diagnosis.py` holds their results.
"""
