"""Contexts encoded as tokens, and packed into sequences and batches.

Start with `tokenizer.py`; `batches.py` describes the arrays of a batch.
"""
