"""Feeds the batches of this pipeline to a trainer on many hosts.

Start with `iterators.py`, modelled on MaxText's input pipelines; `network_config.py` has the
settings, and `maxtext.py` adds this pipeline to MaxText.
"""
