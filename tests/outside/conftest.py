"""The project whose sessions are recorded, for the tests of what a run of pytest says."""

from tests.plugin.conftest import project

__all__ = ["project"]
