"""Loads the plugin of a run, or of a session, where netpipe is used."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Final

import pytest

from netpipe.session.request import REQUEST_VARIABLE

if TYPE_CHECKING:
    from netpipe.suite.run import Run

RUN: Final = pytest.StashKey["Run"]()
"""The key of the run in a config's stash; workers of pytest-xdist and sessions have none."""


def activate(config: pytest.Config) -> None:
    """Register the plugin of a run, or that of a session in its process, if it is not there."""
    is_session = bool(os.environ.get(REQUEST_VARIABLE))
    # By name: the import is slow, and the plugin of a run is above this package.
    name = "netpipe.suite.session_plugin" if is_session else "netpipe.run_plugin"
    if not config.pluginmanager.has_plugin(name):
        config.pluginmanager.register(import_module(name), name)


def run_of(config: pytest.Config) -> "Run":
    """Return the run, of which this may be the first use."""
    activate(config)
    return config.stash[RUN]
