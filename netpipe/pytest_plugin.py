"""The pytest plugin: performance tests of an input pipeline and a training step.

It imports neither jax, grain nor numpy, and the pytest process never initialises a jax backend:
every measurement runs in a session, a fresh process of its own.
"""

import os
import shlex
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from netpipe.device.emulated_names import parse_accelerator
from netpipe.errors import InconclusiveError, NetpipeError
from netpipe.session.request import SessionRequest
from netpipe.suite import other_plugins, session_nodes, summary
from netpipe.suite.acceptance import read_acceptance
from netpipe.suite.against import Against, recorded_commit

# The fixtures belong to this plugin, so that those of a project's own plugins override them.
from netpipe.suite.fixtures import (  # noqa: F401  # pytest looks for them here
    UNUSED,
    _netpipe_alone,
    _netpipe_clock,
    _netpipe_session,
    _netpipe_subject,
    make_failure,
    netpipe_accelerator,
    netpipe_benchmark,
    netpipe_fingerprint,
    netpipe_flops_per_step,
    netpipe_limits,
    netpipe_lint,
    netpipe_loader,
    netpipe_loop,
    netpipe_measurement,
    netpipe_step,
    netpipe_synthetic,
)
from netpipe.suite.options import BASELINE, Options, add_options
from netpipe.suite.outputs import run_document, write_outputs
from netpipe.suite.run import RUN, Run
from netpipe.whole_file import refuse_unwritable, writable_folder

_COMPARE = pytest.StashKey[object]()
_MARKER_KEYS = ("headroom", "stall_fraction", "accelerator")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the flags and ini keys."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Read the options, and refuse another device than the one required."""
    config.addinivalue_line(
        "markers",
        "netpipe(headroom, stall_fraction, accelerator): limits of a performance test, and the "
        "accelerator it is measured with",
    )
    options = Options.from_config(config)
    if SessionRequest.from_environment() is not None:
        # These options concern only the run that started this session.
        option = config.option
        option.benchmark_compare = option.benchmark_save = option.benchmark_json = None
        option.benchmark_autosave = option.benchmark_only = option.benchmark_skip = False
        return
    other_plugins.refuse_only_beside_workers(config)
    compare = other_plugins.take_comparison(config)
    if other_plugins.is_worker(config):
        return
    config.stash[_COMPARE] = compare
    # A recorded run becomes the baseline of later ones, so it is not compared itself.
    compares = bool(compare) and not options.record
    run = Run(options, compares, covers=session_nodes.coverage(config), say=partial(_say, config))
    config.stash[RUN] = run
    with _as_usage_error():
        _check_options(run, config)


def _check_options(run: Run, config: pytest.Config) -> None:
    """Raise a NetpipeError before anything is measured where the options cannot be met."""
    options = run.options
    if options.report is not None:
        refuse_unwritable(options.report, "--netpipe-report")
    if options.device:
        from netpipe.device import detection

        detection.require_device(run.device, options.device)
    if options.request.trace:
        writable_folder(Path(options.request.trace), "--netpipe-trace")
    if options.against not in ("", BASELINE):
        _find_other_version(run, config, options.against)


def _find_other_version(run: Run, config: pytest.Config, ref: str) -> None:
    run.against = Against.from_ref(config, ref, run.options.against_extras, run.say)


@contextmanager
def _as_usage_error() -> Iterator[None]:
    try:
        yield
    except NetpipeError as error:
        raise pytest.UsageError(str(error)) from error


def _say(config: pytest.Config, text: str) -> None:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")
    if reporter is not None:
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(f"  netpipe: {text}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each accelerator, where several are given."""
    if "netpipe_accelerator" not in metafunc.fixturenames:
        return
    markers = metafunc.definition.iter_markers("netpipe")
    if not any("accelerator" in marker.kwargs for marker in markers):
        accelerators = Options.from_config(metafunc.config).accelerators
        if len(accelerators) > 1:
            metafunc.parametrize("netpipe_accelerator", accelerators, indirect=True)


@pytest.hookimpl(tryfirst=True)  # before pytest-benchmark warns about workers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse a marker with an unknown argument; keep timed tests out of workers."""
    for item in items:
        for marker in item.iter_markers("netpipe"):
            unknown = [*marker.args, *(key for key in marker.kwargs if key not in _MARKER_KEYS)]
            if unknown:
                raise pytest.UsageError(
                    f"{item.nodeid}: the netpipe marker takes {', '.join(_MARKER_KEYS)}; "
                    f"found {unknown[0]!r}"
                )
    other_plugins.select_for_process(config, items, _is_measured)
    if any(_is_measured(item) for item in items):
        other_plugins.enable_without_workers(config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Remember the timed tests that a worker of pytest-xdist left to this process."""
    run = node.config.stash.get(RUN, None)
    if run is not None:
        run.left_to_run.update(dict.fromkeys(other_plugins.find_left_out(node)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Run timed tests after those of the workers, when nothing else uses the machine."""
    result = yield
    run = session.config.stash.get(RUN, None)
    if run is not None and run.left_to_run:
        run.say(f"the workers left out {len(run.left_to_run)} timed tests, which now run alone")
        other_plugins.run_alone(session, list(run.left_to_run))
    return result


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist starts its workers
def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse a path that --benchmark-compare took for a run, before tests are collected."""
    config = session.config
    if config.stash.get(RUN, None) is not None:
        other_plugins.refuse_path_as_run(config, config.stash[_COMPARE])


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Remember deselected tests: their benchmarks are not lost."""
    for item in items:
        run = item.config.stash.get(RUN, None)
        if run is not None:
            run.deselected.add(item.nodeid)
            run.has_benchmarks |= _is_compared(item)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Find the baselines and the other version, before anything is measured."""
    config = session.config
    session_nodes.report_missing_test(session)
    run = config.stash.get(RUN, None)
    if run is None:
        return
    run.timed = {item.nodeid for item in session.items if _is_measured(item)}
    run.has_benchmarks |= any(map(_is_compared, session.items))
    if config.option.collectonly:
        return
    if run.timed:
        other_plugins.refuse_other_comparisons(config, config.stash[_COMPARE])
        run.say_limit()
    is_plain = not run.timed or any(
        _requests(item, "benchmark") and not _is_measured(item) for item in session.items
    )
    if run.compares and is_plain:
        other_plugins.give_comparison_back(config, config.stash[_COMPARE])
    with _as_usage_error():
        if run.timed and (run.compares or run.options.against == BASELINE):
            _find_baselines(run, config)
        if any(map(_is_compared, session.items)):
            _prepare_other_version(run, config)


def _prepare_other_version(run: Run, config: pytest.Config) -> None:
    if run.options.against == BASELINE and run.against is None:
        emulated = parse_accelerator(run.options.accelerators[0])
        key = run.device.key if emulated is None else emulated.key
        _find_other_version(run, config, recorded_commit(run.baselines_of(key), key)[:12])
    if run.against is not None:
        run.against.prepare()


def _find_baselines(run: Run, config: pytest.Config) -> None:
    def temporary() -> Path:
        made = tempfile.TemporaryDirectory(prefix="netpipe-")
        config.add_cleanup(made.cleanup)
        return Path(made.name)

    run.acceptance = read_acceptance(run.options, config.rootpath, os.environ, temporary)
    measures_device = run.options.accelerators == ("auto",)
    if measures_device and (baselines := run.baselines_of(run.device.key)):
        other_plugins.show_baseline(config, baselines[-1].path)


def _requests(item: pytest.Item, fixture: str) -> bool:
    return fixture in getattr(item, "fixturenames", ())


_is_compared = partial(_requests, fixture="netpipe_benchmark")
_is_measured = partial(_requests, fixture="netpipe_accelerator")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail without a traceback where a limit is missed or the outcome is INCONCLUSIVE."""
    try:
        result = yield
    except InconclusiveError as error:
        if item.config.stash[RUN].options.fail_when_inconclusive:
            raise make_failure(str(error)) from None
        raise pytest.skip.Exception(str(error).splitlines()[0]) from None
    except NetpipeError as error:
        raise make_failure(str(error)) from None
    if item.stash.get(UNUSED, False):
        raise make_failure("this test requested netpipe_benchmark and benchmarked nothing")
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the outputs; fail a run that compared nothing, lost benchmarks or has bad waivers."""
    run = session.config.stash.get(RUN, None)
    if run is None or _only_lists(session.config):
        return
    is_incomplete = (
        (run.compares_nothing and session.exitstatus == pytest.ExitCode.OK)
        or (run.options.fail_when_missing and run.lost_benchmarks())
        or any(summary.waiver_problems(run))
    )
    if is_incomplete:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    write_outputs(run, session, _write_page)


def _write_page(run: Run, session: pytest.Session) -> None:
    if run.options.report is not None:
        from netpipe.page.rendering import write_page  # Slow: it imports the drawing of plots.

        typed = shlex.join(["pytest", *map(str, session.config.invocation_params.args)])
        write_page([run_document(run)], run.options.report, "--netpipe-report", repeat=typed)


def _only_lists(config: pytest.Config) -> bool:
    """Return whether the user typed --collect-only; in addopts it would switch the gate off."""
    typed = {"--collect-only", "--collectonly", "--co"}
    return bool(config.option.collectonly) and not typed.isdisjoint(config.invocation_params.args)


@pytest.hookimpl(trylast=True)  # below pytest-benchmark's table
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the verdicts, comparisons and notes, and the annotations for GitHub Actions."""
    run = config.stash.get(RUN, None)
    if run is None or _only_lists(config) or not (run.timed or run.notes or run.compares_nothing):
        return
    terminalreporter.section("netpipe")
    for line in summary.summary_lines(run):
        terminalreporter.write_line(line)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        failed = (terminalreporter.stats.get(kind, ()) for kind in ("failed", "error"))
        for command in summary.annotations(chain.from_iterable(failed), run):
            terminalreporter.write_line(command)
