"""Exact resume: `checking.py` restores a loader's states in fresh processes."""
