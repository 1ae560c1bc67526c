"""Planted faults and healthy controls: does the harness name faults, and only faults?"""
