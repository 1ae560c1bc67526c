"""The plugin of a session's process: it does one job with the fixtures of a test."""

import os
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from netpipe.jobs.cleanup import adopt_orphans
from netpipe.jobs.failure import format_failure
from netpipe.jobs.registry import run_job
from netpipe.jobs.request import REQUEST_VARIABLE, SessionRequest
from netpipe.jobs.result_files import error_document, write_result
from netpipe.linting.lint_request import LintRequest
from netpipe.measuring.measure_job import serve
from netpipe.measuring.measure_request import Factories, MeasureRequest
from netpipe.plugin.options import Options, as_usage_error
from netpipe.plugin.session_nodes import SUBJECT_FIXTURES

# Options that concern only the run that started this session: they would leave its test out, or
# write the run's files.
_SWITCHED_OFF = {
    **dict.fromkeys(("benchmark_compare", "benchmark_save", "benchmark_json", "xmlpath")),
    **dict.fromkeys(("benchmark_autosave", "benchmark_only", "benchmark_skip"), False),
    **dict.fromkeys(("lf", "failedfirst", "newfirst", "stepwise", "stepwise_skip"), False),
    **dict.fromkeys(("ignore", "ignore_glob", "deselect")),
    "log_file": os.devnull,  # None would mean the ini key `log_file`.
}


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Refuse a malformed request, and switch off options before other plugins read them."""
    with as_usage_error():
        request = SessionRequest.from_environment()
    assert request is not None
    is_known = request.kind in ("measure", "duet", "lint", "work", "resume")
    if not is_known or not Path(request.result).name:
        raise pytest.UsageError(
            f"{REQUEST_VARIABLE} must hold a test's session of netpipe; found {request}. Unset it"
        )
    adopt_orphans()  # Fixtures may start some before the job begins.
    for name in _SWITCHED_OFF.keys() & vars(config.option).keys():
        setattr(config.option, name, _SWITCHED_OFF[name])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Keep the test that the session is for, whatever a plugin or a conftest deselects."""
    collected = list(items)
    yield
    items[:] = collected


def pytest_collection_finish(session: pytest.Session) -> None:
    """Report a missing test: another version may not have it."""
    request = SessionRequest.from_environment()
    if request is not None and not session.items and not session.testsfailed:
        write_result(request, error_document("missing", "there is no such test"))


@pytest.fixture(autouse=True)
def _netpipe_session(request: pytest.FixtureRequest) -> None:
    """Measure or lint with the fixtures of this node, instead of running the test."""
    try:
        factories = Factories(*map(request.getfixturevalue, SUBJECT_FIXTURES))
    except Exception as error:
        if asked := SessionRequest.from_environment():
            write_result(asked, error_document("failed", format_failure(error)))
        raise
    if storage := Options.from_config(request.config).storage:
        from netpipe.storage.loaders import place

        fingerprint = f"{factories.fingerprint} in {storage}"
        placed = place(factories.loader, storage)
        factories = replace(factories, loader=placed, fingerprint=fingerprint)
    lint = LintRequest.from_environment()
    if lint is not None and lint.kind == "lint":
        from netpipe.linting.lint_job import lint_loader

        run_job(lint, lambda _: lint_loader(lint, factories.loader))
    elif lint is not None and lint.kind == "work":
        from netpipe.work_counts.counting import WorkRequest
        from netpipe.work_counts.work_job import count_factories

        if work := WorkRequest.from_environment():
            run_job(work, lambda _: count_factories(work, factories))
    elif lint is not None and lint.kind == "resume":
        from netpipe.resuming.checking import ResumeRequest
        from netpipe.resuming.resume_job import run_loader

        if resume := ResumeRequest.from_environment():
            run_job(resume, lambda _: run_loader(resume, factories.loader))
    elif lint is not None and lint.kind == "duet":
        from netpipe.duets.duet_job import take_part
        from netpipe.duets.duet_request import DuetRequest

        if duet := DuetRequest.from_environment():
            run_job(duet, partial(take_part, duet, factories))
    elif measure := MeasureRequest.from_environment():
        serve(measure, factories)
    pytest.skip("this process measured for another one")
