"""The interface to pytest-benchmark, which is given the samples of sessions to replay."""

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
        """Pass one duration for each round, and the fields of `extra_info`."""
        remaining = iter(durations_s)
        self._benchmark.extra_info.update(extra_info)
        self._benchmark.pedantic(
            lambda: self._clock.advance(next(remaining)), rounds=len(durations_s), iterations=1
        )


def take_comparison(config: pytest.Config) -> object:
    """Take `--benchmark-compare` from pytest-benchmark until the device is known.

    The flag stays where the user chose another storage.

    Returns:
        The flag's value: None without the flag, True for a flag without a value.
    """
    compare: object = config.option.benchmark_compare
    if config.option.benchmark_storage == _DEFAULT_STORAGE:
        config.option.benchmark_compare = None
    return compare


def refuse_only_beside_workers(config: pytest.Config) -> None:
    """Refuse `--benchmark-only` with pytest-xdist, as pytest-benchmark does, but say the way out.

    Raises:
        pytest.UsageError: Both are used.
    """
    if config.option.benchmark_only and config.getoption("dist", "no") != "no":
        raise pytest.UsageError(
            "--benchmark-only must not come with pytest-xdist, which disables pytest-benchmark; "
            f"found --dist {config.getoption('dist')}. Add -n0"
        )


def enable_without_workers(config: pytest.Config) -> None:
    """Enable pytest-benchmark beside pytest-xdist: timed tests run in no worker."""
    if config.getoption("dist", "no") != "no" and not config.getoption("benchmark_disable"):
        bench = _session(config)
        bench.disabled = bench.xdist_warning = False


def refuse_path_as_run(config: pytest.Config, compare: object) -> None:
    """Refuse a path right after `--benchmark-compare`, which takes it for the number of a run.

    Raises:
        pytest.UsageError: The flag's value is a folder, a test file or a test's id.
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
    with suppress(ValueError):  # The path is too deep for the name of a run.
        return any(_session(config).storage.load(run))
    return False


def refuse_other_comparisons(config: pytest.Config, compare: object) -> None:
    """Refuse flags of pytest-benchmark that netpipe's comparison would ignore.

    Raises:
        pytest.UsageError: A run to compare with, or a bound, was chosen.
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
    """Let pytest-benchmark compare with its own storage, for tests that are not netpipe's."""
    bench = _session(config)
    if compare and not bench.compare:
        bench.compare = compare
        bench.handle_loading()


def show_baseline(config: pytest.Config, path: Path) -> None:
    """Show a baseline beside this run in pytest-benchmark's table.

    pytest-benchmark's own loading would also warn of each difference of the machines.
    """
    from pytest_benchmark.storage.file import FileStorage

    bench = _session(config)
    for name, stored in FileStorage(str(path.parent), logger=bench.logger).load(str(path)):
        bench.compared_mapping[name] = {one["fullname"]: one for one in stored["benchmarks"]}


def document(
    config: pytest.Config, wanted: Mapping[str, tuple[Measurement, ...]]
) -> dict[str, Any]:
    """Return pytest-benchmark's own document of some benchmarks, with their data."""
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
    return config._benchmarksession  # type: ignore[attr-defined]  # noqa: SLF001  # the only access to it
