"""The pipeline and the step this repository measures.

Start with `pipeline.py`, which turns prepared data into batches. `preparation/` makes prepared
folders, `formats/` and `sources/` read them, `sampling/` draws contexts from rows, `tokens/` packs
them into batches, `step/` trains on batches, and `trainer/` feeds them to a trainer on many hosts.
"""
