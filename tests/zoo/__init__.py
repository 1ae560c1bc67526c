"""Upstream pipelines as people have them, and what netpipe says of each.

`pipelines/` has an adaptor of a few lines for each; `catalogue.py` says what is expected of them,
`trial.py` tries one, and `test_zoo.py` compares. `python -m tests.zoo` tries them all in their tox
environments, and writes the table of tests/zoo/README.md.
"""
