"""Random access to probe rows in prepared folders, parquet files and inherited files.

Start with `probe_rows.py`, which has the interface and the table of formats.
"""
