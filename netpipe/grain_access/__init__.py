"""All code that depends on Grain's internals.

`reader.py` reads a pipeline as a plain graph of nodes; `dataset_variants.py` and
`loader_variants.py` rebuild it with other settings.
"""
