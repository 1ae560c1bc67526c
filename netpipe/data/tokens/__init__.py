"""Contexts as tokens, and tokens packed into sequences and batches."""
