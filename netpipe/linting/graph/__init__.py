"""A Grain pipeline as a plain graph of nodes; start with `read_graph` in `reader.py`.

Only `grain_classes.py` knows Grain's internals, and only `function_calls.py` reads bytecode.
"""
