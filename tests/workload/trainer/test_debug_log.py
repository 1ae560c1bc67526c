"""The lines of debug mode, and the drawing of a training's pipeline."""

import queue
import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import grain._src.python.dataset.stats as grain_stats
import jax
import numpy as np
import pytest
from grain.proto.execution_summary_pb2 import ExecutionSummary
from jax.sharding import Mesh

from netpipe.workload.config import PipelineConfig
from netpipe.workload.resume import ResumableBatches
from netpipe.workload.trainer import debug_log
from netpipe.workload.trainer.debug_log import DebugLog, count_stages, make_table, name_bottleneck
from netpipe.workload.trainer.iterators import make_network_train_iterator
from netpipe.workload.trainer.network_config import NetworkConfig
from tests.fakes import FakeClock

PERIOD_S = 60.0
MS = 1_000_000


class Waiting:
    """Batches that come after waits of a fake clock, in which a test may look at the log."""

    def __init__(self, clock: FakeClock, capsys: pytest.CaptureFixture[str]) -> None:
        self._clock, self._capsys = clock, capsys
        self.looks: dict[float, Callable[[], object]] = {}
        self.waits_s: list[float] = []
        self.log = DebugLog(self, "host 1 of 2", PERIOD_S, lambda: None, clock)

    def __iter__(self) -> "Waiting":
        return self

    def __next__(self) -> dict[str, int]:
        before_s = 0.0
        for after_s, look in self.looks.items():
            self._clock.sleep(after_s - before_s)
            look()
            before_s = after_s
        self.looks = {}
        self._clock.sleep(self.waits_s.pop(0) - before_s)
        return {"x": 1}

    def wait(self, *waits_s: float) -> None:
        """Wait for one batch after the other."""
        self.waits_s += waits_s
        for _ in waits_s:
            next(self.log)

    def read(self) -> list[str]:
        """Return the lines since the last call."""
        return self._capsys.readouterr().err.splitlines()

    def close_window(self) -> list[str]:
        """Return the lines of the window that ends now."""
        self.log.close_window()
        return self.read()


@pytest.fixture
def clock() -> FakeClock:
    """The clock of the log."""
    return FakeClock()


@pytest.fixture
def waiting(
    clock: FakeClock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Waiting:
    """A training whose stages Grain does not time, without the watcher's thread."""
    monkeypatch.setattr(DebugLog, "_run", lambda _: None)
    return Waiting(clock, capsys)


# ---- Waits


def test_a_wait_in_progress_is_reported_once(waiting: Waiting) -> None:
    """A line comes after ten seconds, before the end of the period."""
    found: list[list[str]] = []

    def look() -> None:
        waiting.log.sample()
        found.append(waiting.read())

    waiting.wait(0.5)
    waiting.looks = dict.fromkeys((9.9, 12.3, 13.3), look)
    waiting.wait(14.0)
    line = "netpipe, host 1 of 2: waiting for a batch for 12.3 s, after 1 batches"
    assert found == [[], [line], []]
    waiting.looks = {10.0: look}
    waiting.wait(11.0)
    assert found[-1] == [line.replace("12.3 s, after 1", "10 s, after 2")]


def test_a_hang_is_all_wait(waiting: Waiting, clock: FakeClock) -> None:
    """A wait counts while it lasts: each period has its own seconds."""
    found: list[list[str]] = []
    waiting.wait(0.0)
    clock.sleep(15)
    waiting.looks = dict.fromkeys((45, 105), lambda: found.append(waiting.close_window()))
    waiting.wait(135.0)
    clock.sleep(30)
    found.append(waiting.close_window())
    first, second, third = found
    assert "host 1 of 2: 1 batches in 60.0 s, 75% of the time waiting for them; " in first[0]
    assert first[-1] == "  bottleneck: not known, because a single wait took 45 s"
    assert "0 batches in 60.0 s, 100% of the time waiting" in second[0]
    assert "1 batches in 60.0 s, 50% of the time waiting for them" in third[0]
    assert third[1:] == [
        "  wait for a batch: p50 135 s, p99 135 s, max 135 s",
        "  bottleneck: not known, because a single wait took 135 s",
    ]
    clock.sleep(60)
    assert waiting.close_window() == [], "training did not ask for a batch"


def test_waits_for_batches_are_summed_up(waiting: Waiting, clock: FakeClock) -> None:
    """Two waits of 200 are longer than the 99th percentile; each period has its own figures."""
    waiting.wait(0.001, *[0.01] * 196, 0.05, 0.06, 0.101)
    clock.sleep(60)
    state, *others = waiting.close_window()
    assert "200 batches in 62.2 s, 3% of the time waiting for them" in state
    assert others == [
        "  wait for a batch: p50 10 ms, p99 50 ms, max 101 ms",
        "  bottleneck: none, training waited for less than 5% of the time",
    ]
    waiting.wait(30, 40)
    assert "  wait for a batch: p50 30 s, p99 40 s, max 40 s" in waiting.close_window()


# ---- Stages


def summarize(elements: int, widen_ms: int, workers_ms: int, pack_ms: int) -> ExecutionSummary:
    """Return Grain's counts of a pipeline with workers, and these times for an element."""
    stages = [
        ("MapDatasetIterator(transform=widen)", widen_ms),
        ("InterleaveDatasetIterator([2 datasets], cycle_length=2)", 0),
        ("ThreadPrefetchDatasetIterator(prefetch_buffer_size=2)", workers_ms),
        ("ProcessPrefetchDatasetIterator(buffer_size=2)", 0),
        ("PrefetchDatasetIterator(read_options=ReadOptions())", pack_ms + 1),
        ("MapMapDataset(transform=pack)", pack_ms),
        ("SourceMapDataset(source=Rows)", 1),
    ]
    summary = ExecutionSummary()
    for number, (name, each_ms) in enumerate(stages):
        node = summary.nodes[number]
        node.name, node.is_prefetch = name, "Prefetch" in name
        node.wait_time_ratio = 0.9  # of its process since the start, which is not used
        node.min_processing_time_ns, node.max_processing_time_ns = MS // 2, 9 * MS
        node.inputs.extend([number + 1] if number + 1 < len(stages) else [])
        if "ProcessPrefetch" not in name:
            node.num_produced_elements = elements + 3 * (number > 1)
            node.total_processing_time_ns = node.num_produced_elements * each_ms * MS
    return summary


def test_the_bottleneck_is_the_stage_that_is_waited_for() -> None:
    """A wait for workers is divided among their stages, in proportion to their own times."""
    none = ExecutionSummary()
    workers_wait = name_bottleneck(count_stages(summarize(100, 1, 30, 59), none, 3.1))
    assert workers_wait == "Map of pack in workers, 95% of the wait, 59 ms each"
    # The workers take longer, but side by side: their buffer is seldom empty.
    main_waits = name_bottleneck(count_stages(summarize(100, 30, 1, 59), none, 3.1))
    assert main_waits == "Map of widen, 97% of the wait, 30 ms each"
    # Without workers, a thread makes batches while training computes.
    thread = summarize(100, 1, 30, 59)
    thread.nodes[0].is_prefetch = True
    stages = count_stages(thread, none, 0.5)
    assert name_bottleneck(stages) == "Map of pack in workers, 98% of the wait, 59 ms each"


def test_the_bottleneck_is_that_of_the_period() -> None:
    """Counts from before the period are subtracted."""
    before, now = summarize(100_000, 1, 30, 59), summarize(100_000, 1, 30, 59)
    for number, node in summarize(100, 30, 1, 59).nodes.items():
        now.nodes[number].num_produced_elements += node.num_produced_elements
        now.nodes[number].total_processing_time_ns += node.total_processing_time_ns
    bottleneck = name_bottleneck(count_stages(now, before, 3.1))
    assert bottleneck == "Map of widen, 97% of the wait, 30 ms each"


def test_the_bottleneck_is_not_known_without_counts() -> None:
    """The bottleneck is unknown before workers have sent counts."""
    unknown = "not known, Grain has not counted the stages that training waited for"
    none = ExecutionSummary()
    assert name_bottleneck(count_stages(none, none, 3.1)) == unknown
    now, before = summarize(200, 1, 30, 59), summarize(100, 1, 30, 59)
    for number in range(4, 7):
        before.nodes[number].CopyFrom(now.nodes[number])
    assert name_bottleneck(count_stages(now, before, 3.1)) == unknown
    assert name_bottleneck(count_stages(now, now, 3.1)) == unknown
    # The iterator of a restored state has made as many elements as the one before.
    slower = summarize(200, 1, 30, 90)
    assert name_bottleneck(count_stages(slower, now, 3.1)) == unknown


def test_counts_begin_again_after_a_restored_state() -> None:
    """Another iterator has counted fewer elements; they are all new."""
    widen = count_stages(summarize(50, 1, 30, 59), summarize(100, 1, 30, 59), 3.1)[0]
    assert widen.num_produced_elements == 50
    assert widen.total_processing_time_ns == 50 * MS


# ---- Grain


def test_counts_are_read_once_each_worker_has_sent_them(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counts are not read before all workers have sent some."""
    queues = [queue.Queue[int](), queue.Queue[int]()]
    children = [
        SimpleNamespace(_config=SimpleNamespace(stats_in_queues=(own,)), _parents=())
        for own in queues
    ]
    stats = SimpleNamespace(_config=SimpleNamespace(stats_in_queues=None), _parents=children)
    reads = []

    def read(_: object) -> ExecutionSummary:
        reads.append([own.get_nowait() for own in queues])
        return ExecutionSummary()

    monkeypatch.setattr(debug_log, "get_execution_summary", read)
    iterator: Any = SimpleNamespace(_stats=stats)
    log = DebugLog(iter(()), "host 1 of 2", PERIOD_S, lambda: iterator, clock)
    queues[0].put(4)
    log.sample()
    assert reads == []
    queues[1].put(7)
    log.sample()
    assert reads == [[4, 7]]


def test_the_stages_of_a_single_worker_are_counted(many: Path) -> None:
    """Counts come from a single worker too, which Grain alone forgets."""
    config = PipelineConfig(sequence_length=64, batch_size=8, workers=1)
    with closing(ResumableBatches(many, config, is_timed=True)) as batches:
        for _ in range(3):
            next(batches)
        assert batches.iterator is not None
        stats = batches.iterator._stats
        assert len(list(debug_log._find_queues(stats))) == 1


@pytest.fixture
def batches(many: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResumableBatches]:
    """Batches made in this process, whose stages Grain times."""
    monkeypatch.setattr(grain_stats, "_REPORTING_PERIOD_SEC", 0.01)
    config = PipelineConfig(sequence_length=64, batch_size=8, workers=0)
    with closing(ResumableBatches(many, config, is_timed=True)) as opened:
        yield opened


def test_grain_s_counts_are_read(
    batches: ResumableBatches, clock: FakeClock, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Every stage has its times."""
    monkeypatch.setattr(DebugLog, "_run", lambda _: None)

    def load() -> Iterator[object]:
        for batch in batches:
            clock.sleep(6)
            yield batch

    log = DebugLog(load(), "host 1 of 2", PERIOD_S, lambda: batches.iterator, clock)
    for _ in range(5):
        next(log)
    deadline_s = time.monotonic() + 60
    # Grain counts in a thread of its own.
    while not log._summary.nodes or not all(
        node.num_produced_elements >= (5 if "pack" in node.name else 1)
        for node in log._summary.nodes.values()
    ):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
        log._next_read_s = 0.0  # a read is due only when the clock moves
        log.sample()
    log.close_window()
    state, _, bottleneck, _, *stages = capsys.readouterr().err.splitlines()
    assert " MB with 0 workers" in state
    assert "each" in bottleneck
    packing = next(line for line in stages if line.endswith("Map of pack")).split()
    share, shortest_ms, mean_ms, longest_ms, elements = packing[:5]
    assert float(share.rstrip("%")) > 0
    assert 0 < float(shortest_ms) <= float(mean_ms) <= float(longest_ms)
    assert int(elements) >= 5


def test_debug_mode_tells_the_state_until_the_end(
    many: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines go to standard error, also during a long wait; the drawing has the pipeline."""
    drawings = tmp_path / "deep" / "drawings"
    config = NetworkConfig(
        str(many), max_target_length=64, global_batch_size_to_load=8, grain_worker_count=0,
        grain_debug_mode=True, grain_debug_period_s=1, grain_visualization_dir=str(drawings),
    )  # fmt: skip
    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))

    def read_until(pattern: str) -> None:
        told, deadline_s = "", time.monotonic() + 60
        while not re.search(pattern, told):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
            told += capfd.readouterr().err

    with closing(make_network_train_iterator(config, mesh, [0])) as batches:
        next(batches)
        read_until("netpipe, host 1 of 1: 1 batches in")
        is_over = Event()
        monkeypatch.setattr(batches._awaited, "_iterator", iter(is_over.wait, True))
        training = Thread(target=next, args=(batches, None), daemon=True)
        training.start()
        read_until("netpipe, host 1 of 1: waiting for a batch for")
        read_until(r"0 batches in \d+\.\d s, 100% of the time waiting for them")
        is_over.set()
        training.join()
    assert batches._awaited._over.is_set()  # type: ignore[attr-defined]
    drawing = (drawings / "network_train.svg").read_text()
    assert "pack" in drawing
    assert "nothing found" in drawing


def test_nothing_is_told_or_timed_without_debug_mode(
    many: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Stages are not timed without debug mode."""
    config = NetworkConfig(str(many), global_batch_size_to_load=8, grain_worker_count=0)
    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    with closing(make_network_train_iterator(config, mesh, [0])) as batches:
        next(batches)
        assert not isinstance(batches._awaited, DebugLog)
        assert "ExecutionStats" not in type(batches._batches.iterator._stats).__name__  # type: ignore[union-attr]
    assert capfd.readouterr().err.count("netpipe") == 1  # the line at the start


def test_each_stage_has_its_line() -> None:
    """Mean and elements are of the period; Grain has the others only since the start."""
    now, before = summarize(200, 1, 30, 59), summarize(100, 1, 30, 59)
    stages = count_stages(now, before, 3.1)
    heading, *lines = [" ".join(line.split()) for line in make_table(stages)]
    assert heading == "of wait min ms mean ms max ms elements stage"
    assert lines == [
        "3.2% 0.50 1.00 9.00 100 Map of widen",
        "0.0% 0.50 0.00 9.00 100 Interleave",
        "95.2% 0.50 59.00 9.00 100 Map of pack in workers",
        "1.6% 0.50 1.00 9.00 100 Source of Rows in workers",
    ]
    assert list(make_table(count_stages(now, now, 3.1))) == []
