"""The plugin of a session's process, which runs one job with the fixtures of a test."""

import os
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from netpipe.jobs.cleanup import adopt_orphans
from netpipe.jobs.registry import read_request, run_job
from netpipe.jobs.request import error_document, write_result
from netpipe.jobs.targets import Factories
from netpipe.plugin.options import Options, as_usage_error
from netpipe.plugin.session_nodes import SUBJECT_FIXTURES

# Options that concern only the run that started this session. Here they would deselect the test,
# or write the run's files.
_SWITCHED_OFF = {
    **dict.fromkeys(("benchmark_compare", "benchmark_save", "benchmark_json", "xmlpath")),
    **dict.fromkeys(("allure_report_dir", "htmlpath", "pastebin", "report_log")),
    **dict.fromkeys(("benchmark_autosave", "benchmark_only", "benchmark_skip"), False),
    **dict.fromkeys(("lf", "failedfirst", "newfirst", "stepwise", "stepwise_skip"), False),
    **dict.fromkeys(("ignore", "ignore_glob", "deselect")),
    "log_file": os.devnull,  # With None, the ini key `log_file` would apply.
}


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Refuse a malformed request, and switch options off before other plugins read them."""
    with as_usage_error():
        read_request()
    adopt_orphans()  # Fixtures may start processes before the job begins.
    for name in _SWITCHED_OFF.keys() & vars(config.option).keys():
        setattr(config.option, name, _SWITCHED_OFF[name])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Keep the session's test even if another plugin or a conftest deselects it."""
    collected = list(items)
    yield
    items[:] = collected


def pytest_collection_finish(session: pytest.Session) -> None:
    """Report a missing test, because another version may not have it."""
    request = read_request()
    if request is not None and not session.items and not session.testsfailed:
        write_result(request, error_document("missing", "there is no such test"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Report a skipped test as missing, because another version may skip it."""
    request = read_request()
    if request is not None and report.skipped and not Path(request.result).exists():
        write_result(request, error_document("missing", "the test is skipped"))


@pytest.fixture(autouse=True)
def _netpipe_session(request: pytest.FixtureRequest) -> None:
    """Run the job of this session with the fixtures of this node, instead of the test."""
    asked = read_request()
    assert asked is not None
    run_job(asked, partial(_make_factories, request))
    pytest.skip("this process measured for another one")


def _make_factories(request: pytest.FixtureRequest) -> Factories:
    factories = Factories(*map(request.getfixturevalue, SUBJECT_FIXTURES))
    storage = Options.from_config(request.config).storage
    if not storage:
        return factories
    from netpipe.storage.stand_in import place

    fingerprint = f"{factories.fingerprint} in {storage}"
    return replace(factories, loader=place(factories.loader, storage), fingerprint=fingerprint)
