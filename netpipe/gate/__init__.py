"""Compare measurements with baselines, or with another version in duets.

Nothing is measured here. Start with `comparison.py`. `metrics.py` is the table of metrics with
their bounds; `outcomes.py` holds the possible outcomes.
"""
