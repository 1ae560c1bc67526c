"""Upstream pipelines as people use them, and netpipe's answers about each.

`pipelines/` has an adaptor of a few lines for each; `catalogue.py` has the expected answers,
`trial.py` tries one, and `test_zoo.py` compares. `python -m tests.zoo` tries them all in their tox
environments, and writes the table of tests/zoo/README.md.
"""
