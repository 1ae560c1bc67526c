"""The project with recorded sessions, for tests of pytest's output."""

from tests.plugin.conftest import project

__all__ = ["project"]
