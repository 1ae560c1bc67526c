"""Runs variants of a pipeline: `proofs.py` tests findings, `trials.py` measures fixes."""
