"""Whether a change of an input pipeline alters, loses or slows anything: start with `judge.py`."""
