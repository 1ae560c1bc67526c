"""Makes prepared folders from parquet measurements or synthetic profiles.

Start with `prepare.py`; `profiles.py` is the table of synthetic data sets.
"""
