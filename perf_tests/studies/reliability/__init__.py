"""Whether commands that are killed, starved of space or run twice at once leave damage behind.

Start with `disturbances.py`, the table of what is done to a command; `trials.py` runs one and
looks for damage.
"""
