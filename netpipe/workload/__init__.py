"""The data side of this repository's own workload: from stored measurements to batches.

Start with `pipeline.py`, the recipe. `preparation/` makes prepared folders, `formats/` and
`sources/` read them, `sampling/` draws contexts from rows, and `tokens/` makes batches of these.
"""
