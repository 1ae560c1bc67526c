"""The linter of Grain pipelines: reads a graph, applies rules, and can test fixes by experiment.

Start with `linter.py`; every rule is in a file of `rules/`.
"""
