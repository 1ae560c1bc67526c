"""The measurement protocol: a loader and a step are timed in interleaved blocks.

Start with `protocol.py`, which warms up, drains the buffers and runs the rounds of `rounds.py`.
"""
