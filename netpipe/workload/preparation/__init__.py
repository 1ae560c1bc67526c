"""Makes prepared folders from parquet measurements, inherited files or synthetic profiles.

Start with `prepare.py`; `profiles.py` is the table of synthetic data sets.
"""
