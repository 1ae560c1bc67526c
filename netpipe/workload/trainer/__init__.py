"""The door through which a trainer on many hosts takes this repository's batches.

Start with `iterators.py`, in the form of MaxText's input pipelines; `network_config.py` has its
settings, and `maxtext.py` registers it with MaxText.
"""
