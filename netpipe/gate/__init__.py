"""Compare measurements with baselines, or in duets with another version. Arithmetic and files.

Start with `comparison.py`. `metrics.py` is the table of metrics with their bounds; `outcomes.py`
holds the possible outcomes.
"""
