"""The work of a loader per batch: each kind, counted on small loaders."""

import gc
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar, copy_context
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import jax
import numpy as np
import psutil
import pytest

from netpipe.errors import LoaderFailedError, MisuseError
from netpipe.gate.outcomes import Outcome
from netpipe.gate.work_comparison import compare_work
from netpipe.jobs.heartbeat import UNWATCHED
from netpipe.results.work_profile import WorkProfile
from netpipe.work_counts.loader_work import LoaderWork, count_loader_work
from tests.work_counts import work_targets as targets

BATCHES = 4
THIS = targets.__name__
TOKENS_BYTES = targets.ROWS * targets.LENGTH * 4


def count(loader: Callable[[], Any]) -> LoaderWork:
    """Count the work of a loader over a few batches."""
    return count_loader_work(loader, BATCHES, UNWATCHED)


def per_batch(work: LoaderWork, kind: str, part: str) -> float:
    """Return one count per batch."""
    return work.totals[kind].get(part, 0.0) / BATCHES


def test_python_and_c_calls_are_counted_by_function_and_caller() -> None:
    """Each row is doubled once, and each batch stacked once, including numpy's C functions."""
    work = count(targets.loader)
    assert per_batch(work, "calls", f"{THIS}.double") == targets.ROWS
    assert per_batch(work, "calls", f"{THIS}.stack") == 1
    stacked = next(name for _, name in work.calls if name == f"{THIS}.stack")
    assert any(caller == stacked for _, caller in work.calls)
    assert any(name.startswith("numpy") for name in work.totals["calls"])


def test_the_harness_is_not_counted() -> None:
    """No function of the harness is among the calls and allocations."""
    work = count(targets.loader)
    assert work.totals.keys() >= {"calls", "allocations"}
    for kind in ("calls", "allocations"):
        ours = [part for part in work.totals[kind] if part.startswith("netpipe")]
        assert not ours
    assert not any("_Wait" in name for pair in work.calls for name in pair)


def test_the_garbage_collector_is_not_counted() -> None:
    """A collection, which runs at any time and has callbacks, is not counted."""

    def called_back(_: str, __: dict[str, int]) -> bytes:
        """Allocate before and after a collection."""
        return bytes(1000)

    def loader() -> Iterator[list[Any]]:
        for _ in range(100):
            yield [[] for _ in range(10_000)]

    gc.callbacks.append(called_back)
    try:
        work = count(loader)
    finally:
        gc.callbacks.remove(called_back)
    assert work.totals.keys() >= {"calls", "allocations"}
    for kind in ("calls", "allocations"):
        assert not any("called_back" in name for name in work.totals[kind])
    assert gc.isenabled()


def test_one_more_call_for_each_row_is_counted() -> None:
    """A wrapper around the transform is called as often as the transform."""
    work = count(targets.calling_loader)
    assert per_batch(work, "calls", f"{THIS}.log_and_double") == targets.ROWS
    assert work.calls[f"{THIS}.double", f"{THIS}.log_and_double"] == targets.ROWS * BATCHES


def test_allocations_count_also_what_is_freed_again() -> None:
    """A copy of every batch counts, although the first copy is freed at once."""
    before, after = count(targets.loader), count(targets.copying_loader)
    copied = per_batch(after, "allocated_bytes", f"{THIS}.<dictcomp>") + per_batch(
        after, "allocated_bytes", f"{THIS}.copy_batch"
    )
    assert copied == pytest.approx(TOKENS_BYTES, rel=0.05)
    doubled = per_batch(before, "allocated_bytes", f"{THIS}.double")
    assert doubled == pytest.approx(TOKENS_BYTES, rel=0.1)


def test_allocations_of_grains_metrics_are_not_counted() -> None:
    """The number of these allocations depends on the time of an element, so they are dropped."""
    metrics: dict[str, Any] = {}
    code = "def observe(): return bytes(100_000)"
    exec(compile(code, "site-packages/prometheus_client/metrics.py", "exec"), metrics)

    def loader() -> Any:
        while True:
            metrics["observe"]()
            yield np.ones(3)

    assert 0 < sum(count(loader).totals["allocated_bytes"].values()) < 100_000


def test_a_busy_machine_changes_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grain keeps durations as integers, which are larger if a batch takes more than a second."""

    def count_with_clock(nanoseconds: int) -> Mapping[str, Mapping[str, float]]:
        ticks = itertools.count(2**31, nanoseconds)
        monkeypatch.setattr(time, "perf_counter_ns", lambda: next(ticks))
        return count(targets.loader).totals

    count(targets.loader)  # fills numpy's caches
    quiet, busy = count_with_clock(1000), count_with_clock(2**31)
    for kind in ("calls", "allocations", "allocated_bytes"):
        assert quiet[kind] == busy[kind]


def test_elements_and_their_bytes_are_counted_by_stage() -> None:
    """A batch takes eight rows of 4 kB."""
    work = count(targets.loader)
    rows = f"Map of {THIS}.double"
    assert per_batch(work, "elements", rows) == targets.ROWS
    assert per_batch(work, "element_bytes", rows) == pytest.approx(TOKENS_BYTES, rel=0.05)
    batches = next(part for part in work.totals["elements"] if part.startswith("Batch"))
    assert per_batch(work, "elements", batches) == 1


@pytest.mark.parametrize(
    ("loader", "sent_bytes"),
    [
        (targets.loader_with_workers, TOKENS_BYTES),
        (targets.loader_widened_behind_workers, TOKENS_BYTES),
    ],
)
def test_what_would_cross_processes_is_counted(loader: Callable[[], Any], sent_bytes: int) -> None:
    """The batch counts as the worker would send it, and no worker starts."""
    work = count(loader)
    assert per_batch(work, "sent_bytes", "") == pytest.approx(sent_bytes, rel=0.05)


def test_nothing_crosses_processes_without_workers() -> None:
    """A loader in one process sends nothing."""
    assert count(targets.loader).totals["sent_bytes"] == {"": 0}


def test_arrays_are_described() -> None:
    """Each array of a batch has its bytes, dtype and shape."""
    work = count(targets.wide_loader)
    assert work.arrays == {"tokens": "int64[8,1024]", "lengths": "int64[8]"}
    assert per_batch(work, "batch_bytes", "tokens") == 2 * TOKENS_BYTES


def test_padding_is_counted_where_a_mask_marks_it() -> None:
    """A quarter of each row is 0 in the mask."""

    def loader() -> Any:
        return targets.loader().map(lambda batch: {**batch, "input_mask": batch["tokens"]})

    work = count(loader)
    assert per_batch(work, "padding", "") == targets.ROWS * targets.LENGTH / 4
    assert "padding" not in work.not_counted


def test_zeros_of_an_image_are_not_padding() -> None:
    """Without a segmentation or mask, black pixels are contents."""

    def loader() -> Any:
        while True:
            yield {"video": np.zeros((2, 16, 16, 3), np.uint8)}

    work = count(loader)
    assert "padding" not in work.totals
    assert work.not_counted["padding"] == "no segmentation or mask marks it"


def test_bytes_that_are_read_are_counted(tmp_path: Any) -> None:
    """A loader that reads 64 kB of a file for each batch reads 64 kB."""
    file = tmp_path / "data"
    file.write_bytes(b"x" * 65_536)

    def loader() -> Any:
        while True:
            yield np.frombuffer(file.read_bytes(), np.uint8)

    assert per_batch(count(loader), "read_bytes", "") == pytest.approx(65_536, rel=0.02)


def test_the_batch_in_which_a_shard_is_opened_does_not_matter(tmp_path: Path) -> None:
    """Equal rows are equal work if the second file is opened in the warm-up or in any batch."""
    profiles = list[WorkProfile]()
    for first in (2, 4, 7):
        folder = tmp_path / str(first)
        folder.mkdir()
        targets.write_shards(folder, first, 20)
        work = count(partial(targets.loader_of_shards, folder))
        counts = {
            kind: {part: amount / BATCHES for part, amount in parts.items()}
            for kind, parts in work.totals.items()
        }
        callers = {function: {caller: 1.0} for function, caller in work.calls}
        profiles.append(WorkProfile({}, BATCHES, counts=counts, callers=callers))
    pairs = permutations(profiles, 2)
    found = [each for now, then in pairs for each in compare_work(now, then)]
    assert [each.reason for each in found if each.outcome is not Outcome.PASS] == []
    opens = "array_record.python.array_record_data_source._create_reader"
    assert [opens in profile.scope for profile in profiles] == [False, True, True]


def test_only_what_one_batch_does_is_left_out() -> None:
    """Work that recurs in a second batch counts, and so does the usual part of a costly batch."""

    def once() -> bytes:
        return bytes(50_000)

    def twice() -> bytes:
        return bytes(20_000)

    def loader() -> Iterator[bytes]:
        for number in range(100):
            if number == 3:
                once()
                bytes(80_000)
            if number in {2, 4}:
                twice()
            yield bytes(1000)

    work = count(loader)
    name = f"{__name__}.{test_only_what_one_batch_does_is_left_out.__name__}.<locals>"
    calls = work.totals["calls"]
    assert (f"{name}.once" in calls, calls[f"{name}.twice"]) == (False, 2)
    bytes_of = {
        part.rpartition(".")[2]: amount for part, amount in work.totals["allocated_bytes"].items()
    }
    assert bytes_of["twice"] == pytest.approx(40_000, rel=0.01)
    assert bytes_of["loader"] == pytest.approx(4000, abs=1000)
    assert "once" not in bytes_of


def test_a_kernel_that_does_not_say_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is reported, and everything else is counted."""

    def refuse(_: object) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr("psutil.Process.io_counters", refuse)
    work = count(targets.loader)
    assert work.not_counted["read_bytes"] == "the kernel does not report it"
    assert "read_bytes" not in work.totals
    assert per_batch(work, "calls", f"{THIS}.stack") == 1


def test_a_loader_that_is_not_grains_is_counted_whole() -> None:
    """Calls and allocations are counted; the missing stages are reported."""
    work = count(targets.plain_loader)
    assert per_batch(work, "calls", f"{THIS}.double") == targets.ROWS
    assert set(work.not_counted) == {"elements", "element_bytes", "sent_bytes", "padding"}
    assert work.arrays["tokens"] == "int32[8,1024]"


def test_cpu_time_includes_every_thread() -> None:
    """A batch that takes 20 ms of this process's CPU time has at least that."""

    def loader() -> Iterator[list[Any]]:
        while True:
            ends_s = time.process_time() + 0.020
            while time.process_time() < ends_s:
                pass
            yield []

    assert count(loader).cpu_s_per_batch >= 0.020


def test_threads_and_processes_of_the_loader_are_noted() -> None:
    """A thread and a process are beside the counted thread, whose work they do not add to."""

    def loader() -> Iterator[list[Any]]:
        over = threading.Event()
        threading.Thread(target=over.wait, daemon=True).start()
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE):
            try:
                while True:
                    yield []
            finally:
                over.set()

    assert count(loader).tasks_beside == 2
    assert count(targets.loader).tasks_beside == 0


def test_a_short_epoch_is_counted_as_far_as_it_goes() -> None:
    """Only one of three batches is left after the warm-up; restarting the loader is not work."""
    work = count(targets.loader_of_one_epoch)
    assert work.batches == 1
    assert work.totals["calls"][f"{THIS}.stack"] == 1
    assert f"{THIS}.rows" not in work.totals["calls"]


@pytest.mark.parametrize(
    ("leaf", "arrays"),
    [
        (np.zeros((8, 0), np.int32), {"leaf": "int32[8,0]"}),
        (jax.random.key(0), {"leaf": "key<fry>[]"}),
        (memoryview(b"text"), {}),
        ("text", {}),
    ],
)
def test_odd_leaves_of_a_batch_are_described_or_left_out(
    leaf: object, arrays: dict[str, str]
) -> None:
    """An empty array, a random key, a buffer and a text may be in a batch."""

    def loader() -> Any:
        while True:
            yield {"leaf": leaf}

    work = count(loader)
    assert work.arrays == arrays
    assert "padding" not in work.totals


def test_batches_are_kept_for_a_step() -> None:
    """The last two batches are kept to run a step."""
    assert [batch["tokens"].shape for batch in count(targets.loader).step_batches] == [
        (8, 1024)
    ] * 2


@pytest.mark.parametrize(
    ("loader", "error", "message"),
    [
        (targets.failing_loader, LoaderFailedError, "the disk is gone"),
        (lambda: 7, MisuseError, "must return an iterable of batches; found int"),
        (lambda: iter(()), MisuseError, "gave no batch"),
    ],
)
def test_an_unsuitable_loader_is_refused(
    loader: Callable[[], Any], error: type[Exception], message: str
) -> None:
    """The error says how the loader is unsuitable."""
    with pytest.raises(error, match=message):
        count(loader)


def test_other_variables_of_the_context_change_no_count() -> None:
    """Only NumPy's settings reach the loader; other variables would change its allocations."""
    seen: list[tuple[int, str]] = []

    def loader() -> Any:
        while True:
            seen.append((len(copy_context()), np.geterr()["divide"]))
            yield np.ones(3)

    variables = [ContextVar[int](f"variable {number}") for number in range(8)]
    with np.errstate(divide="raise"):
        tokens = [variable.set(1) for variable in variables]
        count(loader)
        for variable, token in zip(variables, tokens, strict=True):
            variable.reset(token)
    assert set(seen) == {(1, "raise")}
