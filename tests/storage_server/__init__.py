"""A real S3-compatible server behind a proxy that delays, and sources that read from it.

Start with `server.py`, which runs rclone's server and nginx on loopback; `sources.py` reads parquet
and ArrayRecord from it by range requests, `mount.py` mounts it, and `data.py` makes what it serves.
Only `tox -e storage-server` has the programs.
"""
