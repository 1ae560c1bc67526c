"""A real training step: model, optimizer, FLOPs, and batches that need no loading."""
