"""Why training waits: a Measurement becomes a verdict. Arithmetic only.

Start with `decision.py`, which tries the rules in order.
"""
