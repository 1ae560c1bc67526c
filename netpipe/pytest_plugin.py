"""The pytest plugin: performance tests of an input pipeline and a training step.

Every pytest run with netpipe installed loads this module. It registers the flags and the fixtures,
and holds the hooks that determine whether a run uses netpipe; if so, `plugin.run_plugin` does the
rest.
"""

import os
from collections.abc import Generator
from typing import Any

import pytest

from netpipe.errors import InconclusiveError, NetpipeError
from netpipe.jobs.request import REQUEST_VARIABLE
from netpipe.plugin import fixtures, other_plugins
from netpipe.plugin.fixtures import RUN, UNUSED, activate, is_timed, make_failure, run_of
from netpipe.plugin.options import (
    Options,
    is_any_given,
    pytest_addoption,  # noqa: F401  # pytest looks for it here
)
from netpipe.printable import make_loggable


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the fixtures beside this plugin, so that a project's own plugins override them."""
    pluginmanager.register(fixtures, fixtures.__name__)


@pytest.hookimpl(tryfirst=True)  # before pytest-benchmark reads its options
def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker; activate netpipe in a session, or if a flag or an ini key is given."""
    config.addinivalue_line(
        "markers",
        "netpipe(headroom, stall_fraction, first_batch_s, peak_pss_bytes, growth_bytes_per_batch, "
        "accelerator): limits of a performance test, and the accelerator it is measured with",
    )
    if os.environ.get(REQUEST_VARIABLE) or is_any_given(config):
        activate(config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each accelerator, if several are given."""
    if "netpipe_accelerator" not in metafunc.fixturenames or not is_any_given(metafunc.config):
        return
    markers = metafunc.definition.iter_markers("netpipe")
    if not any("accelerator" in marker.kwargs for marker in markers):
        accelerators = Options.from_config(metafunc.config).accelerators
        if len(accelerators) > 1:
            metafunc.parametrize("netpipe_accelerator", accelerators, indirect=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Activate netpipe for the first test that needs it."""
    if is_timed(item) or item.get_closest_marker("netpipe"):
        activate(item.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Note the timed tests that a pytest-xdist worker left for this process to run."""
    if left_out := other_plugins.find_left_out(node):
        run_of(node.config).left_to_run.update(dict.fromkeys(left_out))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Run timed tests after the workers have finished, when nothing else uses the machine."""
    result = yield
    run = session.config.stash.get(RUN, None)
    if run is not None and run.left_to_run:
        count = len(run.left_to_run)
        run.measurer.report_progress(
            f"the workers did not run {count} timed tests; they run now, alone"
        )
        other_plugins.run_alone(session, list(run.left_to_run))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    """Turn netpipe's errors in fixtures into failures without a traceback."""
    try:
        return (yield)
    except NetpipeError as error:
        raise make_failure(f"{type(error).__name__}: {error}") from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Turn netpipe's errors into failures without a traceback, or into a skip if inconclusive."""
    try:
        result = yield
    except InconclusiveError as error:
        if Options.from_config(item.config).fail_when_inconclusive:
            raise make_failure(str(error)) from None
        raise pytest.skip.Exception(make_loggable(str(error)).splitlines()[0]) from None
    except NetpipeError as error:
        raise make_failure(str(error)) from None
    if item.stash.get(UNUSED, False):
        raise make_failure("this test requested netpipe_benchmark but benchmarked nothing")
    return result
