"""A Grain pipeline as a plain graph of nodes; `reading.py` is the way in."""
