"""Watching a training run from inside: how long it waits for its batches, window by window."""
