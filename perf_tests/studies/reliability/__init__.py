"""Whether commands that are killed, starved of space or run twice at once leave damage behind.

Start with `disturbances.py`, the table of disturbances; `trials.py` runs a disturbed command and
looks for damage.
"""
