"""Turn a Measurement into a verdict that says why training waits. Arithmetic only.

Start with `decision.py`, which tries the rules in order.
"""
