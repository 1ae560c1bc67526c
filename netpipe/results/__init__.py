"""The results of a measurement: plain, frozen numbers that travel as JSON.

Start with `measurement.py`; `units.py` formats the figures for people.
"""
