"""What only a GPU shows, in three stages of ten minutes: docs/gpu.md.

Start with `stages.py`, which says what each stage runs; `running.py` runs it within its time.
"""
