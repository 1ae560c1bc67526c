"""The plugin of a run that uses netpipe: it checks the options, compares, and writes the outputs.

It does not import jax or grain, and the pytest process never initialises a jax backend: every
measurement runs in a session, which is a fresh process.
"""

import os
import shlex
import shutil
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import fields, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import pytest

from netpipe.device.detection import installed_versions, require_device
from netpipe.errors import InputError
from netpipe.files.temporary_folders import temporary_folder
from netpipe.files.whole_file import refuse_unwritable, writable_folder
from netpipe.gate.acceptance import Acceptance, read_acceptance
from netpipe.gate.waivers import FILE as WAIVERS
from netpipe.other_version import TYPED_VARIABLE
from netpipe.plugin import github, other_plugins, session_nodes, summary
from netpipe.plugin.against import Against, recorded_commit
from netpipe.plugin.fixtures import RUN, is_benchmark, is_compared, is_timed, requests
from netpipe.plugin.gate import Gate, Selection
from netpipe.plugin.measurer import Measurer
from netpipe.plugin.options import BASELINE, Options, as_usage_error, is_in_ci
from netpipe.plugin.outputs import write_outputs
from netpipe.plugin.run import Run
from netpipe.plugin.sessions import Jobs
from netpipe.printable import make_loggable
from netpipe.signals import signals_as_errors
from netpipe.testing import Limits
from netpipe.worktrees import find_commit

_T = TypeVar("_T")
JOBS = pytest.StashKey[Jobs]()
"""The key of the functions that start processes, if they replace netpipe's own."""

_COMPARE = pytest.StashKey[object]()
_MARKER_KEYS = (*(field.name for field in fields(Limits)), "accelerator")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Read the options, and refuse invalid ones before tests are collected."""
    compare = other_plugins.take_comparison(config)
    if other_plugins.is_worker(config):
        return
    options = Options.from_config(config)
    config.stash[_COMPARE] = compare
    # A recording becomes the baseline of later runs, so it is not compared itself.
    compares = bool(compare) and not options.record
    jobs = config.stash.get(JOBS, Jobs())
    report, draw = partial(_report_progress, config), partial(_draw_progress, config)
    measurer = Measurer(options, compares, report, jobs, draw)
    covers, is_partial = partial(session_nodes.covers, config), config.getoption("lf", False)
    gate = Gate(measurer, Selection(config.rootpath, covers, bool(is_partial)))
    config.stash[RUN] = run = Run(options, measurer, gate)
    with as_usage_error():
        _check_options(run, config)


def _check_options(run: Run, config: pytest.Config) -> None:
    """Raise a NetpipeError, before anything is measured, if the options cannot be satisfied."""
    options = run.options
    refuse_unwritable(options.report, "--netpipe-report")
    refuse_unwritable(options.json, "--netpipe-json")
    if options.device:
        require_device(run.device, options.device)
    if options.request.trace:
        writable_folder(Path(options.request.trace), "--netpipe-trace")
    for accelerator in options.accelerators if options.record else ():
        folder = options.recordings / run.device_key(accelerator)
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        writable_folder(existing, "--netpipe-record")
    if options.against not in ("", BASELINE):
        _find_other_version(run, config, options.against)


def _find_other_version(run: Run, config: pytest.Config, ref: str) -> None:
    typed = os.environ.get(TYPED_VARIABLE, "")
    commit = find_commit(config.rootpath, ref, "--netpipe-against", typed)
    extras, measurer = run.options.against_extras, run.measurer
    printers = measurer.report_progress, measurer.draw_progress
    measurer.against = Against(commit, config, extras, measurer.jobs, *printers)


def _report_progress(config: pytest.Config, text: str) -> None:
    with _printing(config) as reporter:
        if reporter is not None:
            reporter.ensure_newline()
            reporter.write_line(make_loggable(f"  netpipe: {text}"))


def _draw_progress(config: pytest.Config, text: str) -> None:
    """Replace the last line of a terminal; an empty text removes it. In CI, do nothing."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or not reporter.isatty or is_in_ci():
        return
    with _printing(config):
        shown = make_loggable(f"  netpipe: {text}")[: shutil.get_terminal_size().columns - 1]
        reporter.rewrite(shown if text else "", erase=True)
        reporter.rewrite("")


@contextmanager
def _printing(config: pytest.Config) -> Iterator[Any]:
    """Yield pytest's terminal, while it does not capture what is printed; None without one."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext():
        yield config.pluginmanager.getplugin("terminalreporter")


@pytest.hookimpl(tryfirst=True)  # before pytest-benchmark warns about workers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse markers with unknown arguments, and keep timed tests out of workers."""
    # In a worker, an error would become an INTERNALERROR of pytest-xdist.
    checked = [] if other_plugins.is_worker(config) else items
    for item in checked:
        for marker in item.iter_markers("netpipe"):
            unknown = [*marker.args, *(key for key in marker.kwargs if key not in _MARKER_KEYS)]
            if unknown:
                raise pytest.UsageError(
                    f"{item.nodeid}: the netpipe marker takes {', '.join(_MARKER_KEYS)}; "
                    f"found {unknown[0]!r}"
                )
    other_plugins.require_benchmark(config, filter(is_benchmark, checked))
    other_plugins.select_for_process(config, items, is_timed)
    if any(map(is_timed, items)):
        other_plugins.enable_without_workers(config)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist starts its workers
def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse a path that --benchmark-compare took for a run number, before collection."""
    config = session.config
    if RUN in config.stash:
        other_plugins.refuse_path_as_run(config, config.stash[_COMPARE])


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Remember deselected tests, whose benchmarks do not count as lost."""
    for item in items:
        if run := item.config.stash.get(RUN, None):
            run.gate.selection.deselected.add(item.nodeid)
            run.gate.selection.has_benchmarks |= is_compared(item)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Find the baselines and the other version, before anything is measured."""
    config = session.config
    run = config.stash.get(RUN, None)
    if run is None:
        return
    has_compared = any(map(is_compared, session.items))
    run.gate.selection.selected = {item.nodeid for item in session.items}
    timed = run.gate.selection.timed = {item.nodeid for item in session.items if is_timed(item)}
    run.gate.selection.has_benchmarks |= has_compared
    if _lists(config):
        return
    _take_over_comparison(run, session)
    if timed:
        _open(config, signals_as_errors(run.interrupt))  # so that a killed run cleans up
    with as_usage_error():
        if timed and (run.measurer.compares or run.options.against == BASELINE):
            run.gate.acceptance = _read_acceptance(run, config, run.options.baselines_at)
            _find_baselines(run, session)
            run.gate.work_baselines_of(installed_versions())
        elif timed and run.measurer.against and (run.options.baselines / WAIVERS).exists():
            run.gate.acceptance = _read_acceptance(run, config, "here")
            with suppress(InputError):  # The folder may lie outside the repository.
                there = _read_acceptance(run, config, run.measurer.against.commit.sha)
                run.gate.acceptance = replace(run.gate.acceptance, added=there.added)
        if has_compared:
            _prepare_other_version(run, session)


def _take_over_comparison(run: Run, session: pytest.Session) -> None:
    """Compare timed tests here, and leave other benchmarks to pytest-benchmark."""
    compare, timed = session.config.stash[_COMPARE], run.gate.selection.timed
    if timed:
        other_plugins.refuse_other_comparisons(session.config, compare)
        run.report_duration()
    has_others = any(requests(item, "benchmark") and not is_timed(item) for item in session.items)
    if run.measurer.compares and has_others:
        other_plugins.give_comparison_back(session.config, compare)


def _prepare_other_version(run: Run, session: pytest.Session) -> None:
    config = session.config
    if run.options.against == BASELINE and run.measurer.against is None:
        accelerators = (*_compared_accelerators(run, session), *run.options.accelerators)
        keys = list(map(run.device_key, accelerators))
        key = next(filter(run.gate.baselines_of, keys), keys[0])
        _find_other_version(run, config, recorded_commit(run.gate.baselines_of(key), key)[:12])
    against = run.measurer.against
    if against is not None and not against.has_no_tests:
        against.prepare()


def _read_acceptance(run: Run, config: pytest.Config, at: str) -> Acceptance:
    def temporary() -> Path:
        return _open(config, temporary_folder("baselines"))

    options = run.options
    return read_acceptance(options.baselines, at, config.rootpath, os.environ, temporary)


def _find_baselines(run: Run, session: pytest.Session) -> None:
    config, options = session.config, run.options
    compared = _compared_accelerators(run, session)
    # Benchmarks may be lost from the baselines of the others.
    for accelerator in dict.fromkeys((*options.accelerators, *compared)):
        key = run.device_key(accelerator)
        baselines = run.gate.baselines_of(key)
        if baselines and (accelerator,) == options.accelerators == ("auto",):
            other_plugins.show_baseline(config, baselines[-1].path)
        elif not (baselines or options.against) and accelerator in compared:
            run.measurer.without_baseline.add(accelerator)
            fails = ", so its benchmarks will fail" if run.options.fail_when_missing else ""
            run.measurer.report_progress(
                f"there is no baseline for {key}{fails}. Record one: {_recording_command(config)}"
            )


def _compared_accelerators(run: Run, session: pytest.Session) -> list[str]:
    """Return the accelerators that benchmarks are measured with; those of the run come first."""
    marked = set(map(session_nodes.marked_accelerator, filter(is_benchmark, session.items)))
    own = run.options.accelerators * (None in marked)
    return list(dict.fromkeys((*own, *sorted(filter(None, marked)))))


def _recording_command(config: pytest.Config) -> str:
    """Return the command that repeats this run, under tox if needed, and records a baseline."""
    tox = os.environ.get("TOX_ENV_NAME")
    typed = ["pytest", *map(str, config.invocation_params.args)]
    return shlex.join([*(["tox", "-e", tox, "--"] if tox else typed), "--netpipe-record", "first"])


def _open(config: pytest.Config, context: AbstractContextManager[_T]) -> _T:
    """Enter a context, and leave it at the end of the run."""
    opened = ExitStack()
    config.add_cleanup(opened.close)
    return opened.enter_context(context)


@pytest.hookimpl(wrapper=True, trylast=True)  # within pytest's wrapper that prints the summary
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, object, object]:
    """Write the outputs; fail a run that compared nothing, lost benchmarks or has bad waivers."""
    run = session.config.stash.get(RUN, None)
    if run is None or _only_lists(session.config):
        return (yield)
    run.is_finishing = True
    is_incomplete = (
        run.gate.compares_nothing
        or (run.options.fail_when_missing and run.gate.lost_benchmarks())
        or any(run.gate.waiver_problems())
    )
    if is_incomplete and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    write_outputs(run, session)
    if run.ended_by:
        session.exitstatus = 128 + run.ended_by
    try:
        return (yield)
    except OSError as error:  # --junitxml may fail on a full disk; still print the summary.
        run.gate.notes.append(f"an output of another plugin could not be written: {error}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return None


def _lists(config: pytest.Config) -> bool:
    option = config.option
    return bool(option.collectonly or option.showfixtures or option.show_fixtures_per_test)


def _only_lists(config: pytest.Config) -> bool:
    """Return whether the user typed a list-only flag; one in addopts must not disable the gate."""
    typed = {"--collect-only", "--collectonly", "--co", "--fixtures", "--fixtures-per-test"}
    return _lists(config) and not typed.isdisjoint(config.invocation_params.args)


@pytest.hookimpl(trylast=True)  # below pytest-benchmark's table
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the verdicts, comparisons and notes, and the annotations for GitHub Actions."""
    run = config.stash.get(RUN, None)
    if run is None or _only_lists(config):
        return
    if not (run.gate.selection.timed or run.gate.notes or run.gate.compares_nothing):
        return
    terminalreporter.section("netpipe")
    durations = run.measurer.durations if config.option.durations is not None else ()
    for line in chain(summary.summary_lines(run), durations):
        terminalreporter.write_line(make_loggable(line))
    if os.environ.get("GITHUB_ACTIONS") == "true":
        failed = (terminalreporter.stats.get(kind, ()) for kind in ("failed", "error"))
        for command in github.annotations(chain.from_iterable(failed), run, config.rootpath):
            terminalreporter.write_line(command)
