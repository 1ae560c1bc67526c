"""What a measurement holds: plain, frozen numbers that travel as JSON.

How they are written for people is in `units.py`. Start with `measurement.py`.
"""
