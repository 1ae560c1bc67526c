"""Lints Grain pipelines: reads the graph, applies rules, and can test fixes by experiment.

Start with `linter.py`; the rules are in `rules/`.
"""
