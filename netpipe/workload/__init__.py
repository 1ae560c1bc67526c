"""The pipeline and the step this repository measures.

Start with `pipeline.py`, which turns prepared data into batches. `preparation/` makes prepared
folders, `formats/` and `sources/` read them, `sampling/` draws contexts from rows, `tokens/` makes
batches of them, `step/` trains on batches, and `trainer/` gives them to a trainer on many hosts.
"""
