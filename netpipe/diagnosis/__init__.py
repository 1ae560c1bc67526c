"""Which stage of a loader is slow, which resource binds it, and what each change would give.

Start with `investigation.py`, which makes every measurement and conclusion of one session;
`diagnose.py` runs the sessions of the command, and `diagnosis.py` holds what they find.
"""
