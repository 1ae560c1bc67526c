"""A real training step: model, optimizer, FLOPs, and batches that need no loading.

Start with `train.py`; `presets.py` is the table of models.
"""
