"""The results of a measurement: plain, frozen values that are exchanged as JSON.

Start with `measurement.py`; `units.py` formats the figures for people.
"""
