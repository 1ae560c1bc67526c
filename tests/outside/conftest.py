"""The project whose sessions are recorded, for the tests of what a run of pytest says."""

from tests.suite.conftest import project

__all__ = ["project"]
