"""The lines of debug mode, and the drawing of a training's pipeline."""

import queue
import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import grain._src.python.dataset.stats as grain_stats
import jax
import numpy as np
import pytest
from grain.proto.execution_summary_pb2 import ExecutionSummary
from jax.sharding import Mesh

from netpipe.workload.config import PipelineConfig
from netpipe.workload.resume import ResumableBatches
from netpipe.workload.trainer import state_log
from netpipe.workload.trainer.iterators import make_network_train_iterator
from netpipe.workload.trainer.network_config import NetworkConfig
from netpipe.workload.trainer.state_log import (
    StateLog,
    count_stages,
    make_table,
    name_bottleneck,
)
from tests.fakes import FakeClock

PERIOD_S = 60.0
MS = 1_000_000


@pytest.fixture
def clock() -> FakeClock:
    """The clock of the log."""
    return FakeClock()


@pytest.fixture
def log(clock: FakeClock) -> StateLog:
    """A log of a training whose stages Grain does not time."""
    return StateLog("host 1 of 2", PERIOD_S, lambda: None, clock)


def wait(log: StateLog, clock: FakeClock, *waits_s: float) -> None:
    """Wait for one batch after the other."""
    for wait_s in waits_s:
        with log.waiting():
            clock.sleep(wait_s)


# ---- Waits


def test_a_wait_in_progress_is_reported_once(log: StateLog, clock: FakeClock) -> None:
    """A line comes after ten seconds, before the end of the period."""
    wait(log, clock, 0.5)
    with log.waiting():
        clock.sleep(9.9)
        assert log.take_lines() == []
        clock.sleep(2.4)
        line = "netpipe, host 1 of 2: waiting for a batch for 12.3 s, after 1 batches"
        assert log.take_lines() == [line]
        clock.sleep(1)
        assert log.take_lines() == []
    with log.waiting():
        clock.sleep(10)
        assert log.take_lines() == [line.replace("12.3 s, after 1", "10 s, after 2")]


def test_a_hang_is_all_wait(log: StateLog, clock: FakeClock) -> None:
    """A wait counts while it lasts: each period has its own seconds."""
    clock.sleep(15)
    with log.waiting():
        clock.sleep(45)
        _, state, bottleneck = log.take_lines()
        assert "host 1 of 2: 0 batches in 60.0 s, 75% of the time waiting for them; " in state
        assert bottleneck == "  bottleneck: not known, because a single wait took 45 s"
        clock.sleep(60)
        assert "0 batches in 60.0 s, 100% of the time waiting" in log.take_lines()[0]
        clock.sleep(30)
    clock.sleep(30)
    state, waits, bottleneck = log.take_lines()
    assert "1 batches in 60.0 s, 50% of the time waiting for them" in state
    assert waits == "  wait for a batch: min 135 s, mean 135 s, max 135 s, p99 135 s"
    assert bottleneck == "  bottleneck: not known, because a single wait took 135 s"
    clock.sleep(60)
    assert "0 batches in 60.0 s, 0% of the time waiting for them" in log.take_lines()[0]


def test_an_error_ends_a_wait_without_a_batch(log: StateLog, clock: FakeClock) -> None:
    """The log ends with an error, such as the end of the data."""

    def end() -> None:
        with log.waiting():
            clock.sleep(15)
            raise StopIteration

    with pytest.raises(StopIteration):
        end()
    clock.sleep(45)
    state, _ = log.take_lines()
    assert "0 batches in 60.0 s, 25% of the time waiting" in state
    assert log._over.is_set()


def test_waits_for_batches_are_summed_up(log: StateLog, clock: FakeClock) -> None:
    """Two waits of 200 are longer than the 99th percentile; each period has its own figures."""
    wait(log, clock, 0.001, *[0.01] * 196, 0.05, 0.06, 0.101)
    clock.sleep(60)
    waits = "  wait for a batch: min 1 ms, mean 10.9 ms, max 101 ms, p99 50 ms"
    state, *others = log.take_lines()
    assert "200 batches in 62.2 s, 3% of the time waiting for them" in state
    assert others == [waits, "  bottleneck: none, training waited for less than 5% of the time"]
    wait(log, clock, 30, 40)
    assert log.take_lines()[1] == "  wait for a batch: min 30 s, mean 35 s, max 40 s, p99 40 s"


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

    monkeypatch.setattr(state_log, "get_execution_summary", read)
    log = StateLog("host 1 of 2", PERIOD_S, lambda: SimpleNamespace(_stats=stats), clock)
    queues[0].put(4)
    log.take_lines()
    assert reads == []
    queues[1].put(7)
    log.take_lines()
    assert reads == [[4, 7]]


def test_the_stages_of_a_single_worker_are_counted(many: Path) -> None:
    """Counts come from a single worker too, which Grain alone forgets."""
    config = PipelineConfig(sequence_length=64, batch_size=8, workers=1)
    with closing(ResumableBatches(many, config, is_timed=True)) as batches:
        for _ in range(3):
            next(batches)
        assert batches.iterator is not None
        stats = batches.iterator._stats
        assert len(list(state_log._find_queues(stats))) == 1


@pytest.fixture
def batches(many: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResumableBatches]:
    """Batches made in this process, whose stages Grain times."""
    monkeypatch.setattr(grain_stats, "_REPORTING_PERIOD_SEC", 0.01)
    config = PipelineConfig(sequence_length=64, batch_size=8, workers=0)
    with closing(ResumableBatches(many, config, is_timed=True)) as opened:
        yield opened


def test_grain_s_counts_are_read(batches: ResumableBatches, clock: FakeClock) -> None:
    """Every stage has its times."""
    log = StateLog("host 1 of 2", PERIOD_S, lambda: batches.iterator, clock)
    for _ in range(5):
        with log.waiting():
            next(batches)
            clock.sleep(6)
    deadline_s = time.monotonic() + 60
    # Grain counts in a thread of its own.
    while not log._summary.nodes or not all(
        node.num_produced_elements >= (5 if "pack" in node.name else 1)
        for node in log._summary.nodes.values()
    ):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
        assert log.take_lines() == []
    clock.sleep(PERIOD_S)
    state, _, bottleneck, _, *stages = log.take_lines()
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
    monkeypatch.setattr(state_log, "_TICK_S", 0.05)
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
        monkeypatch.setattr(batches, "_awaited", iter(is_over.wait, True))
        training = Thread(target=next, args=(batches, None), daemon=True)
        training.start()
        read_until("netpipe, host 1 of 1: waiting for a batch for")
        read_until(r"0 batches in \d+\.\d s, 100% of the time waiting for them")
        is_over.set()
        training.join()
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
        assert batches._log is None
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
