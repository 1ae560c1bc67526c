"""File formats of measurements and probe rows: parquet, ArrayRecord shards and their index.

Start with `rows.py`, which defines the stored unit; `layout.py` has its encodings.
"""
