"""The accelerator and its host: how they are found, named, watched and emulated.

Start with `detection.py`. A new GPU model is a row of the table in `accelerators.py`.
"""
