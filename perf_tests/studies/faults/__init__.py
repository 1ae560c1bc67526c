"""Planted faults and healthy controls: does the harness name what is wrong, and only that?"""
