"""The batches of this pipeline for a trainer on many hosts.

Start with `iterators.py`, in the form of MaxText's input pipelines; `network_config.py` has its
settings, and `maxtext.py` registers it with MaxText.
"""
