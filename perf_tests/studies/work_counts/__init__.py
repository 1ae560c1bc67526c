"""Trials of counted work: unchanged code under changing load, and planted changes.

Start with `__main__.py`; `planted.py` has the changes, `unsteady.py` loaders with random counts.
"""
