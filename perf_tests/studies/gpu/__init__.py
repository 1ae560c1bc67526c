"""Checks that need a GPU, in three stages of ten minutes: docs/gpu.md.

Start with `stages.py`, which lists each stage's commands; `running.py` runs them within the time.
"""
