"""A Grain pipeline as a plain graph of nodes; start with `read_graph` in `reader.py`."""
