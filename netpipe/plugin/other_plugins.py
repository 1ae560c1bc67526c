"""The interfaces to pytest-benchmark and pytest-xdist.

Timed tests run alone, in the controlling process, after the workers of pytest-xdist.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import pytest

from netpipe.files.paths import exists

_DEFAULT_STORAGE: Final = "file://./.benchmarks"
_LEFT_OUT: Final = "netpipe_left_out"


def take_comparison(config: pytest.Config) -> object:
    """Take `--benchmark-compare` from pytest-benchmark until the device is known.

    Returns the value of the flag: None if it was not given, True if it was given without a value.
    If pytest-benchmark's storage is not the default one, pytest-benchmark keeps the flag.
    """
    compare: object = config.getoption("benchmark_compare", None)
    if config.getoption("benchmark_storage", None) == _DEFAULT_STORAGE:
        config.option.benchmark_compare = None
    return compare


def require_benchmark(config: pytest.Config, benchmarks: Iterator[pytest.Item]) -> None:
    """Raise a UsageError if there are benchmarks but pytest-benchmark is disabled."""
    if not hasattr(config, "_benchmarksession") and (benchmark := next(benchmarks, None)):
        raise pytest.UsageError(
            f"{benchmark.nodeid} needs the plugin pytest-benchmark, which is disabled. Remove "
            "-p no:benchmark, or deselect the test"
        )


def enable_without_workers(config: pytest.Config) -> None:
    """Enable pytest-benchmark under pytest-xdist, because timed tests never run in a worker."""
    is_enabled = not config.getoption("benchmark_disable", True)
    if config.getoption("dist", "no") != "no" and is_enabled:
        bench = _benchmark_session(config)
        bench.disabled = bench.xdist_warning = False


def refuse_path_as_run(config: pytest.Config, compare: object) -> None:
    """Raise a UsageError if `--benchmark-compare` took a path for the number of a run."""
    # pytest-benchmark takes the path of a JSON file.
    path = config.invocation_params.dir / str(compare).partition("::")[0]
    if isinstance(compare, str) and exists(path) and path.suffix != ".json":
        raise pytest.UsageError(
            f"--benchmark-compare must come after the path of the tests; found {compare!r}, "
            f"taken for the number of a run. Run: pytest {compare} --benchmark-compare"
        )


def refuse_other_comparisons(config: pytest.Config, compare: object) -> None:
    """Raise a UsageError if a run number or a bound is given, which netpipe would ignore."""
    if isinstance(compare, str):
        raise pytest.UsageError(
            "--benchmark-compare must have no value with netpipe's tests, which are compared with "
            f"the latest baseline of the device; found {compare!r}"
        )
    if config.getoption("benchmark_compare_fail", None):
        raise pytest.UsageError(
            "--benchmark-compare-fail must not be given with netpipe's tests, which fail anyway "
            "when they regress. Remove it"
        )


def give_comparison_back(config: pytest.Config, compare: object) -> None:
    """Let pytest-benchmark compare other tests with its own storage."""
    bench = _benchmark_session(config)
    if compare and not bench.compare:
        bench.compare = compare
        bench.handle_loading()


def show_baseline(config: pytest.Config, path: Path) -> None:
    """Show a baseline beside this run in pytest-benchmark's table, if there is a table.

    pytest-benchmark's own loader would warn about each difference between the machines.
    """
    if not hasattr(config, "_benchmarksession"):
        return
    from pytest_benchmark.storage.file import FileStorage

    bench = _benchmark_session(config)
    for name, stored in FileStorage(str(path.parent), logger=bench.logger).load(str(path)):
        bench.compared_mapping[name] = {entry["fullname"]: entry for entry in stored["benchmarks"]}


def benchmark_document(config: pytest.Config, wanted: Container[str]) -> Mapping[str, Any]:
    """Return pytest-benchmark's document of some benchmarks, with their data."""
    bench, hook = _benchmark_session(config), config.hook
    document: Mapping[str, Any] = hook.pytest_benchmark_generate_json(
        config=config,
        benchmarks=[made for made in bench.benchmarks if made.fullname in wanted],
        include_data=True,
        machine_info=bench.get_machine_info(),
        commit_info=hook.pytest_benchmark_generate_commit_info(config=config),
    )
    return document


def _benchmark_session(config: pytest.Config) -> Any:
    return config._benchmarksession  # type: ignore[attr-defined]  # noqa: SLF001  # pytest-benchmark offers no other access


def is_worker(config: pytest.Config) -> bool:
    """Return whether this process is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


def select_for_process(
    config: pytest.Config, items: list[pytest.Item], is_timed: Callable[[pytest.Item], bool]
) -> None:
    """Keep timed tests out of the workers, and all others out of the controlling process."""
    if is_worker(config):
        timed = [item.nodeid for item in items if is_timed(item)]
        config.workeroutput[_LEFT_OUT] = timed  # type: ignore[attr-defined]
        items[:] = [item for item in items if not is_timed(item)]
    elif config.pluginmanager.hasplugin("dsession"):
        items[:] = [item for item in items if is_timed(item)]


def find_left_out(worker: Any) -> Sequence[str]:
    """Return the ids of the timed tests that a finished worker left out."""
    found: Sequence[str] = getattr(worker, "workeroutput", {}).get(_LEFT_OUT, ())
    return found


def run_alone(session: pytest.Session, node_ids: Sequence[str]) -> None:
    """Collect the timed tests that the workers left out, and run them here one by one.

    Raises:
        pytest.Session.Failed: The limit of `--maxfail` was reached.
        pytest.Session.Interrupted: The run was asked to stop.
    """
    collected_by_workers = session.testscollected
    # A path object would collapse a double slash in the name of a parametrized test.
    session.perform_collect([f"{session.config.rootpath}/{node_id}" for node_id in node_ids])
    session.testscollected += collected_by_workers
    for item, following in zip_longest(session.items, session.items[1:]):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
