"""What only running a pipeline shows: its variants, compared by their batches and by their speed.

`proofs.py` tests findings on the first batches; `trials.py` measures what a fix gains.
"""
