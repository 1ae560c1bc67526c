"""Options of the zoo's own tox environments."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that the environments set."""
    group = parser.getgroup("zoo", "the zoo of upstream pipelines")
    group.addoption("--zoo", default="", help="the environment whose pipelines are tried")
    group.addoption("--zoo-keep", default="", help="a file to which each trial is added")
