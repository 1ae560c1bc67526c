"""The rules about elements that are made ahead, and the threads that make them."""

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import grain
import jax
import pytest

from netpipe.device.host import this_host
from netpipe.linting import linter
from netpipe.linting.linter import LintReport, lint
from netpipe.linting.rules.finding import Reads
from tests.linting.rules.linting import (
    NO_THREADS,
    OneToThree,
    by_intent,
    elements,
    in_workers,
    increment,
    kinds_of,
    lint_factory,
    loader,
    only,
    severities,
    source,
)

NOTHING = "no-prefetch"
BUFFER = "oversized-read-buffer"
THREADS = "threads-in-training-process"
X = grain.experimental


def read(threads: int, ahead: int) -> Any:
    """Read options."""
    return grain.ReadOptions(num_threads=threads, prefetch_buffer_size=ahead)


def thread(dataset: Any, ahead: int = 2) -> Any:
    """The dataset with a thread that reads ahead."""
    return X.ThreadPrefetchIterDataset(dataset, prefetch_buffer_size=ahead)


@pytest.mark.parametrize(
    ("bare", "severity"),
    [
        (elements().batch(4), "warning"),
        (source().batch(4).to_iter_dataset(NO_THREADS), "warning"),
        (source().batch(4).to_iter_dataset(read(4, 0)), "warning"),
        (thread(elements().batch(4), 0), "warning"),
        (grain.IterDataset.mix([thread(elements()), elements()]), "warning"),
        (X.InterleaveIterDataset([elements()], cycle_length=1, iter_buffer_size=0), "warning"),
        (elements().batch(4).map(jax.device_put), "warning"),
        (X.ParquetIterDataset("a.parquet").batch(4), "warning"),
        (source().to_iter_dataset(read(4, 4)).map(increment).batch(4), "warning"),
        (thread(elements().batch(4)).map(increment), "warning"),
        (source().to_iter_dataset(read(4, 4)).batch(4), "info"),
    ],
)
def test_work_on_request_is_reported(bare: Any, severity: str) -> None:
    """The finding is a warning; batching alone is info."""
    assert by_intent(bare, NOTHING) == (severity, severity)


@pytest.mark.parametrize(
    "ahead",
    [
        source().batch(4),
        source().batch(4).to_iter_dataset(read(4, 4)),
        thread(elements().batch(4)),
        in_workers(elements().batch(4)),
        in_workers(elements()).batch(4).map(increment),
        thread(elements().batch(4)).map(jax.device_put),
        X.device_put(elements().batch(4), None),
        grain.IterDataset.mix([thread(elements()), in_workers(elements())]),
        X.LimitIterDataset(thread(elements().batch(4)), 3),
        X.InterleaveIterDataset([elements(), elements()], cycle_length=2),
        X.multithread_prefetch(elements().batch(4), num_threads=2, buffer_size=1),
        loader(grain.transforms.Batch(4), workers=0),
    ],
)
def test_reading_ahead_is_not_reported(ahead: Any) -> None:
    """Other rules report missing or misplaced workers."""
    assert by_intent(ahead, NOTHING) == (None, None)


def test_a_pipeline_without_prefetch_is_named_at_its_end() -> None:
    """The last node is named; if something reads ahead, the node that comes too late."""
    report = lint(elements().batch(4))
    assert only(NOTHING, report).nodes == (0,)
    late = lint(thread(elements()).map(increment).batch(4))
    assert kinds_of(only(NOTHING, late), late) == ["Map"]
    branches = lint(grain.IterDataset.mix([thread(elements()), elements()]))
    assert "not every branch" in only(NOTHING, branches).message


# ---- Buffers that hold batches instead of elements


def test_a_buffer_of_batches_is_a_warning() -> None:
    """The default of 500 elements is 500 batches after a batch, and harmless before it."""
    assert by_intent(source().batch(4).to_iter_dataset(), BUFFER) == ("warning", "warning")
    assert by_intent(thread(source().to_iter_dataset().batch(4)), BUFFER) == (None, None)
    report = lint(source().batch(4).map(increment).to_iter_dataset())
    finding = only(BUFFER, report)
    assert kinds_of(finding, report) == ["ToIter", "Batch"]
    assert re.search(r"500 elements.* batch of 4\b", finding.message)
    # Without threads there is no buffer either, so both findings have one fix.
    in_all = lint(in_workers(source().batch(4).to_iter_dataset()))
    assert "every worker" in only(BUFFER, in_all).message
    fix = "Read without threads: .to_iter_dataset(grain.ReadOptions(num_threads=0))"
    assert only(BUFFER, in_all).fix == only("threads-in-workers", in_all).fix == fix


@pytest.mark.parametrize(
    ("dataset", "found"),
    [
        (source().batch(4).to_iter_dataset(read(4, 64)), None),
        (source().batch(4).to_iter_dataset(read(4, 65)), "warning"),
        (source().batch(4).to_iter_dataset(read(0, 500)), None),
        (X.FlatMapMapDataset(source().batch(4), OneToThree()).to_iter_dataset(), None),
        (source().batch(1).to_iter_dataset(), None),
        (source().batch(4).batch(1).to_iter_dataset(), "warning"),
        (source().batch(4), "info"),
        (source().map(increment), None),
    ],
)
def test_how_many_batches_are_too_many(dataset: Any, found: str | None) -> None:
    """Only a buffer that a thread fills with batches counts; a MapDataset has Grain's default."""
    assert by_intent(dataset, BUFFER) == (found, found)


def test_the_rule_knows_grains_default_buffer() -> None:
    """Iterating a MapDataset reads 500 ahead; without threads the buffer is not used."""
    assert _made_ahead(lambda dataset: dataset) == 501
    assert _made_ahead(lambda dataset: dataset.to_iter_dataset(read(0, 50))) == 1


def _made_ahead(finish: Any) -> int:
    made: Counter[int] = Counter()

    def note(element: int) -> int:
        made[element] += 1
        return element

    iterator = iter(finish(grain.MapDataset.range(2_000).map(note)))
    next(iterator)
    executor = getattr(iterator, "_executor", None)
    if executor is not None:
        executor.shutdown(wait=True)  # running calls come to their end
    return len(made)


class Endless(grain.IterDataset):  # type: ignore[misc]  # no types
    """A source of the user's own."""

    def __iter__(self) -> Any:
        """Fail the test."""
        raise AssertionError("it was read")


@pytest.mark.parametrize(
    "stream",
    [Endless().batch(4), X.TFRecordIterDataset("a.tfrecord").batch(4)],
    ids=["own", "tfrecord"],
)
def test_workers_are_not_proposed_for_a_stream(stream: Any) -> None:
    """Grain cannot slice a stream, so only a thread is proposed."""
    with pytest.raises(ValueError, match="Cannot slice"):
        next(iter(X.multithread_prefetch(stream, num_threads=2, buffer_size=1)))
    fix = only(NOTHING, lint(stream)).fix
    assert "ThreadPrefetchIterDataset" in fix
    assert "mp_prefetch" not in fix
    assert ".mp_prefetch(" in only(NOTHING, lint(elements().batch(4))).fix


def test_an_elastic_iterator_has_workers_as_an_argument() -> None:
    """An ElasticIterator reads with its own threads, or with none."""
    bare = _elastic(0)
    assert by_intent(bare, NOTHING) == ("warning", "warning")
    assert "ElasticIterator(multiprocessing_options=" in only(NOTHING, lint(bare)).fix
    assert by_intent(_elastic(2), NOTHING) == (None, None)


def _elastic(threads: int) -> Any:
    sharding = grain.sharding.NoSharding()
    return X.ElasticIterator(source(), 4, sharding, read_options=read(threads, threads))


def data_loader(workers: int = 0, **settings: Any) -> Any:
    """A DataLoader that reads as Grain does by default."""
    return grain.DataLoader(
        data_source=range(8),
        sampler=grain.samplers.IndexSampler(8, grain.sharding.NoSharding(), seed=0),
        operations=[grain.transforms.Batch(4)],
        worker_count=workers,
        **settings,
    )


@pytest.mark.parametrize(
    ("dataset", "severity"),
    [
        (data_loader(), "warning"),
        (data_loader(read_options=NO_THREADS), None),
        (data_loader(workers=2), None),
        (source().to_iter_dataset().batch(4), "warning"),
        (thread(source().to_iter_dataset(read(1, 4)).batch(4)), "warning"),
        (in_workers(source().to_iter_dataset().batch(4)), None),
        (in_workers(source().to_iter_dataset().batch(4), workers=0), "warning"),
        (source().to_iter_dataset(read(4, 0)).batch(4), None),
        (source().batch(4).to_iter_dataset(), None),
        (source().batch(4), None),
        (X.ElasticIterator(source(), 4, grain.sharding.NoSharding()), None),
    ],
)
def test_threads_that_read_elements_in_the_training_process_are_a_warning(
    dataset: Any, severity: str | None
) -> None:
    """Threads are reported where they read single elements, not batches, and not in workers."""
    assert by_intent(dataset, THREADS) == (severity, severity)


def test_threads_are_replaced_by_one_that_makes_batches() -> None:
    """If nothing else reads ahead, the fix proposes a prefetch thread; all readers are named."""
    report = lint(grain.IterDataset.mix([source().to_iter_dataset() for _ in range(3)]))
    finding = only(THREADS, report)
    assert kinds_of(finding, report) == ["ToIter"] * 3
    assert re.search(r"^3 .* 16 threads", finding.message)
    call = ".to_iter_dataset(grain.ReadOptions(num_threads=0))"
    threaded = source().to_iter_dataset().batch(4)
    fix = only(THREADS, lint(threaded)).fix
    assert fix.index(call) < fix.index("grain.experimental.ThreadPrefetch")
    assert only(THREADS, lint(thread(threaded))).fix.endswith(call)


def test_workers_are_no_alternative_to_reading_without_threads() -> None:
    """For a DataLoader and for mp_prefetch with 0 workers, both rules propose this step first."""
    for report in (
        lint(data_loader()),
        lint_factory(lambda: in_workers(source().to_iter_dataset(), workers=0)),
    ):
        step = only(THREADS, report).fix.partition("))")[0]
        fix = only("no-workers", report).fix
        assert "num_threads=0" in step
        assert fix.startswith(f"{step})), unless")
    assert "threads" not in only("no-workers", lint(data_loader(read_options=NO_THREADS))).fix
    # Threads that read batches read ahead, and no rule objects to them.
    batches = lint_factory(lambda: in_workers(source().batch(4).to_iter_dataset(), workers=0))
    assert THREADS not in severities(batches)
    assert "without threads" not in only("no-workers", batches).fix


@pytest.mark.parametrize(
    "put_right",
    [
        thread(source().to_iter_dataset(read(0, 0)).batch(4)),
        in_workers(source().to_iter_dataset(read(0, 0)).batch(4)),
        data_loader(read_options=read(0, 0)),
        data_loader(workers=1, read_options=read(0, 0)),
    ],
)
def test_a_pipeline_without_threads_is_not_sent_back_to_them(put_right: Any) -> None:
    """A pipeline that follows the advice breaks none of the rules about reading ahead."""
    warned = {rule for rule, severity in severities(put_right).items() if severity != "info"}
    assert not warned & {THREADS, NOTHING, BUFFER, "no-workers", "threads-in-workers"}


# ---- Reading that waits

FEW = "too-few-reads-in-flight"
WAIT = Reads(wait=True, evidence="batches.netpipe_storage is 'remote'")
COMPUTE = Reads(evidence="batches.netpipe_storage is 'local'")


@pytest.mark.parametrize(
    ("dataset", "in_flight"),
    [
        (elements().batch(4), 1),
        (in_workers(elements().batch(4)), 2),
        (in_workers(source().to_iter_dataset(read(3, 500)).batch(4)), 6),
        (in_workers(source().to_iter_dataset(read(16, 3)).batch(4)), 6),
        (X.multithread_prefetch(elements(), num_threads=3, buffer_size=1), 3),
        (grain.IterDataset.mix([elements(), source().to_iter_dataset(read(4, 4))]), 5),
        (_elastic(2), 2),
        (data_loader(read_options=NO_THREADS), 1),
        (in_workers(source().to_iter_dataset(read(4, 4)).batch(4)), None),
        (in_workers(elements().batch(4), workers=8), None),
        (source().to_iter_dataset().batch(4), None),
        (source().batch(4), None),
        (X.ParquetIterDataset("a.parquet").batch(4), None),
    ],
)
def test_few_reads_at_a_time_are_found_where_reading_waits(
    dataset: Any, in_flight: int | None
) -> None:
    """Reads are threads times workers, of all readers; nothing is reported if that is unknown."""
    found = [each for each in lint(dataset, reads=WAIT).findings if each.rule == FEW]
    assert [each.severity for each in found] == ["warning"] * (in_flight is not None)
    assert all(f" {in_flight} at a time " in each.message for each in found)
    assert all(WAIT.evidence in each.message for each in found)
    for reads in (Reads(), COMPUTE):
        assert FEW not in {each.rule for each in lint(dataset, reads=reads).findings}


def test_more_reads_are_proposed_in_the_call_that_reads() -> None:
    """The fix names the call to change."""
    options = "grain.ReadOptions(num_threads=16, prefetch_buffer_size=64)"
    for dataset, call in (
        (elements().batch(4), f".to_iter_dataset({options})"),
        (data_loader(read_options=NO_THREADS), f"DataLoader(read_options={options})"),
        (_elastic(0), f"ElasticIterator(read_options={options})"),
    ):
        assert only(FEW, lint(dataset, reads=WAIT)).fix == f"Read with threads: {call}"


@pytest.mark.parametrize("rule", [THREADS, "threads-in-workers"])
def test_threads_that_cannot_help_are_reported_without_a_condition(rule: str) -> None:
    """The evidence about the storage replaces the condition."""
    dataset = source().to_iter_dataset().batch(4)
    dataset = dataset if rule == THREADS else in_workers(dataset)
    assert "only where reading waits" in only(rule, lint(dataset)).message
    message = only(rule, lint(dataset, reads=COMPUTE)).message
    assert COMPUTE.evidence in message
    assert "only where reading waits" not in message

    # Where reading waits, a buffer of batches keeps its threads.
    report = lint(in_workers(source().batch(4).to_iter_dataset()), reads=WAIT)
    assert "num_threads=4, prefetch_buffer_size=4" in only(BUFFER, report).fix


# ---- Buffers of all kinds, and the memory of the host

MEMORY = "buffers-exceed-memory"
MB = 10**6


def ahead(batches: Any, workers: int, buffer: int) -> Any:
    """The batches behind mp_prefetch with a buffer."""
    return batches.mp_prefetch(grain.MultiprocessingOptions(workers, buffer))


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lint on a host with 24 GB of memory; the second argument is the bytes of a batch."""
    host = replace(this_host(), memory_bytes=24 * 1000 * MB)
    monkeypatch.setattr(linter, "this_host", lambda: host)
    return lambda dataset, size: lint(dataset, reads=Reads(measure_batch=lambda _: size))


def found_by(report: LintReport) -> list[tuple[str, str]]:
    """The severity and the fix of each finding of the rule."""
    return [(each.severity, each.fix) for each in report.findings if each.rule == MEMORY]


def test_the_buffers_of_workers_are_counted(judge: Any) -> None:
    """Both processes have a buffer for each worker; the message has the figures of the host."""
    report = judge(ahead(elements().batch(256), 12, 32), 10 * MB)
    finding = only(MEMORY, report)
    assert kinds_of(finding, report) == ["ProcessPrefetch"]
    assert "12 workers x 2 x (32 + 1) = 792 batches" in finding.message
    assert "10 MB for each, all buffers can take 7.92 GB of 24 GB of memory" in finding.message
    assert found_by(report) == [("warning", "Lower per_worker_buffer_size from 32 to 1")]


@pytest.mark.parametrize(
    ("size", "severity"),
    [(None, "info"), (1, "info"), (7 * MB, "info"), (8 * MB, "warning"), (31 * MB, "error")],
)
def test_many_batches_are_a_remark_and_more_than_the_memory_an_error(
    judge: Any, size: int | None, severity: str
) -> None:
    """A quarter of the memory is a warning; bytes that are not known leave the count."""
    report = judge(ahead(elements().batch(256), 12, 32), size)
    assert only(MEMORY, report).severity == severity
    assert ("are not known" in only(MEMORY, report).message) == (size is None)


@pytest.mark.parametrize(
    ("dataset", "size", "fix"),
    [
        (ahead(elements().batch(8), 2, 100), 1, "per_worker_buffer_size from 100 to 15"),
        (
            ahead(elements().batch(8), 20, 2),
            500 * MB,
            "per_worker_buffer_size from 2 to 1 and num_workers from 20 to 3",
        ),
        (thread(elements().batch(8), 300), 1, "prefetch_buffer_size from 300 to 63"),
        (source().batch(8).to_iter_dataset(), 100 * MB, "prefetch_buffer_size from 500 to 59"),
        (source().batch(8), 100 * MB, "prefetch_buffer_size from 500 to 59"),
        (
            ahead(source().to_iter_dataset().batch(2), 10, 1),
            10 * MB,
            "prefetch_buffer_size from 500 to 11",
        ),
    ],
)
def test_the_largest_buffer_is_to_be_lowered_to_what_fits(
    judge: Any, dataset: Any, size: int, fix: str
) -> None:
    """The buffer then holds at most 64 batches, and a quarter of the memory."""
    ((_, proposed),) = found_by(judge(dataset, size))
    assert proposed == f"Lower {fix}"


def test_smaller_batches_are_proposed_where_no_setting_helps(judge: Any) -> None:
    """The smallest buffers of the workers fit; together with the read buffers they do not."""
    batches = source().to_iter_dataset(read(4, 16)).batch(8)
    assert found_by(judge(ahead(batches, 20, 1), 60 * MB)) == [("warning", "Make smaller batches")]


def test_a_data_loader_has_settings_of_other_names(judge: Any) -> None:
    """The settings are those of the DataLoader's arguments; the read options keep their name."""
    batch = grain.transforms.Batch(8)
    sampler = grain.samplers.IndexSampler(num_records=22, seed=0)
    settings = {"data_source": source(22), "sampler": sampler, "operations": [batch]}
    many = grain.DataLoader(**settings, worker_count=2, worker_buffer_size=100)
    ((_, fix),) = found_by(judge(many, 2000 * MB))
    assert fix == "Lower worker_buffer_size from 100 to 1 and worker_count from 2 to 1"
    ((_, fix),) = found_by(judge(grain.DataLoader(**settings, worker_count=2), 100 * MB))
    assert fix.startswith("Lower prefetch_buffer_size from 500 to ")


@pytest.mark.parametrize(
    ("dataset", "size"),
    [
        (ahead(elements().batch(8), 4, 7), 1000 * MB),
        (ahead(elements().batch(8), 32, 1), 10 * MB),
        (ahead(elements(), 12, 32).batch(8), 10 * MB),
        (source().to_iter_dataset().batch(4), 10 * MB),
        (source().batch(8).to_iter_dataset(), 10 * MB),
    ],
)
def test_other_buffers_are_not_reported(judge: Any, dataset: Any, size: int) -> None:
    """Few batches, a buffer that cannot be smaller, and read buffers that fit are silent."""
    assert found_by(judge(dataset, size)) == []


def test_a_batch_is_only_read_where_buffers_hold_many() -> None:
    """Linting other pipelines reads nothing."""
    read = list[Any]()
    lint(ahead(elements().batch(8), 4, 7), reads=Reads(measure_batch=read.append))
    assert read == []
    report = lint(ahead(elements().batch(8), 4, 8), reads=Reads(measure_batch=read.append))
    assert read == [report.graph]
