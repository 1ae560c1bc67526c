"""How measurements and probe rows are stored: parquet, ArrayRecord shards and their index.

Start with `rows.py`, the unit that is stored; `layout.py` has its encodings.
"""
