"""Measurements compared with baselines, or pair by pair with another version. Arithmetic and files.

Start with `comparison.py`; `metrics.py` is the table of metrics with their bounds.
"""
