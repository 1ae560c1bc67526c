"""The seam to pytest-benchmark: sessions' samples are replayed through it, never timed by it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from netpipe.clock import RecordedClock
from netpipe.results.measurement import Measurement

_DEFAULT_STORAGE: Final = "file://./.benchmarks"


class Replay:
    """Plays recorded durations to pytest-benchmark, whose timer is the recorded clock."""

    def __init__(self, benchmark: Any, clock: RecordedClock) -> None:
        self._benchmark = benchmark
        self._clock = clock

    def check_enabled(self) -> None:
        """Fail when pytest-benchmark would measure nothing.

        Raises:
            pytest.fail.Exception: It is disabled.
        """
        if not self._benchmark.enabled:
            pytest.fail(
                "benchmarks are disabled (--benchmark-disable): nothing was measured. Run: "
                "pytest perf_tests --benchmark-compare",
                pytrace=False,
            )

    def play(self, durations_s: Sequence[float], extra_info: Mapping[str, Any]) -> None:
        """Hand over one duration a round, with what else is worth keeping of it."""
        remaining = iter(durations_s)
        self._benchmark.extra_info.update(extra_info)
        self._benchmark.pedantic(
            lambda: self._clock.advance(next(remaining)), rounds=len(durations_s), iterations=1
        )


def take_comparison(config: pytest.Config) -> object:
    """Take `--benchmark-compare` over from pytest-benchmark until the device is known.

    A storage that the user chose is left alone.

    Returns:
        What the flag was given: None without it, True without a value.
    """
    compare: object = config.option.benchmark_compare
    if config.option.benchmark_storage == _DEFAULT_STORAGE:
        config.option.benchmark_compare = None
    return compare


def refuse_only_beside_workers(config: pytest.Config) -> None:
    """Say how `--benchmark-only` goes where somebody has `-n` in their addopts.

    Raises:
        pytest.UsageError: pytest-benchmark would refuse it without a way out.
    """
    if config.option.benchmark_only and config.getoption("dist", "no") != "no":
        raise pytest.UsageError(
            "--benchmark-only must not come with pytest-xdist, which disables pytest-benchmark; "
            f"found --dist {config.getoption('dist')}. Add -n0"
        )


def enable_without_workers(config: pytest.Config) -> None:
    """Undo that pytest-benchmark measures nothing beside pytest-xdist: ours run in no worker."""
    if config.getoption("dist", "no") != "no" and not config.getoption("benchmark_disable"):
        bench = _session(config)
        bench.disabled = bench.xdist_warning = False


def refuse_path_as_run(config: pytest.Config, compare: object) -> None:
    """Say where a path goes: behind `--benchmark-compare` it is taken for a run's number.

    Raises:
        pytest.UsageError: A folder, a test file or a test's id was taken so.
    """
    if not isinstance(compare, str):
        return
    path = config.invocation_params.dir / compare.partition("::")[0]
    is_file = path.suffix == ".py" and path.is_file()
    if is_file or (path.is_dir() and not _is_stored(config, compare)):
        raise pytest.UsageError(
            f"--benchmark-compare must come behind the path of the tests; found {compare!r}, "
            f"taken for the number of a run. Run: pytest {compare} --benchmark-compare"
        )


def _is_stored(config: pytest.Config, run: str) -> bool:
    with suppress(ValueError):  # a path too deep for the name of a run
        return any(_session(config).storage.load(run))
    return False


def refuse_other_comparisons(config: pytest.Config, compare: object) -> None:
    """Refuse what pytest-benchmark would compare a test of netpipe's by.

    Raises:
        pytest.UsageError: A run or a bound was chosen that netpipe would not keep to.
    """
    if isinstance(compare, str):
        raise pytest.UsageError(
            "--benchmark-compare must have no value where netpipe's tests run, which are held "
            f"against the latest baseline of the device; found {compare!r}"
        )
    if config.option.benchmark_compare_fail:
        raise pytest.UsageError(
            "--benchmark-compare-fail must not come with netpipe's tests, each of which fails by "
            "itself when it has regressed. Leave it out"
        )


def give_comparison_back(config: pytest.Config, compare: object) -> None:
    """Let pytest-benchmark look in its own storage after all: no test here is netpipe's."""
    bench = _session(config)
    if compare and not bench.compare:
        bench.compare = compare
        bench.handle_loading()


def show_baseline(config: pytest.Config, path: Path) -> None:
    """Let pytest-benchmark's table show a baseline beside this run.

    Its own loading would also compare the machines' names and clock rates, and warn at each.
    """
    from pytest_benchmark.storage.file import FileStorage

    bench = _session(config)
    for name, stored in FileStorage(str(path.parent), logger=bench.logger).load(str(path)):
        bench.compared_mapping[name] = {one["fullname"]: one for one in stored["benchmarks"]}


def document(
    config: pytest.Config, wanted: Mapping[str, tuple[Measurement, ...]]
) -> dict[str, Any]:
    """Return pytest-benchmark's own document of the benchmarks wanted, with their data."""
    bench = _session(config)
    benchmarks = [one for one in bench.benchmarks if one.fullname in wanted]
    hook = config.hook
    made: dict[str, Any] = hook.pytest_benchmark_generate_json(
        config=config,
        benchmarks=benchmarks,
        include_data=True,
        machine_info=bench.get_machine_info(),
        commit_info=hook.pytest_benchmark_generate_commit_info(config=config),
    )
    return made


def _session(config: pytest.Config) -> Any:
    return config._benchmarksession  # type: ignore[attr-defined]  # noqa: SLF001  # its only door
