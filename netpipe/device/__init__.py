"""Find, name, watch and emulate the accelerator and its host.

Start with `detection.py`. To add a GPU model, add a row to the table in `accelerators.py`.
"""
