"""The rules about workers: their number, the objects sent to them, threads and jax in them."""

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import grain
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.device.host import this_host
from netpipe.linting import linter
from netpipe.linting.linter import lint
from netpipe.linting.rules.finding import Reads
from netpipe.linting.rules.workers import LARGE_CAPTURE_BYTES
from tests.linting.rules.linting import (
    NO_THREADS,
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

THREADS = "threads-in-workers"
NONE = "no-workers"
MANY = "too-many-workers"
JAX = "jax-in-worker"
CAPTURE = "large-capture"
PICKLE = "cannot-be-pickled"


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set the host's number of cores."""
    host = this_host()

    def have(count: int) -> None:
        monkeypatch.setattr(linter, "this_host", lambda: replace(host, cores=count))

    return have


def test_threads_in_workers_are_a_warning() -> None:
    """Grain's default of 16 reading threads is named inside workers, and fine outside."""
    default = source().to_iter_dataset()
    assert by_intent(in_workers(default), THREADS) == ("warning", "warning")
    assert by_intent(default, THREADS) == (None, None)
    assert by_intent(elastic(2, threads=4), THREADS) == ("warning", "warning")
    report = lint(in_workers(default))
    finding = only(THREADS, report)
    assert kinds_of(finding, report) == ["ProcessPrefetch", "ToIter"]
    assert re.search(r"\b16 threads in each .*2 workers", finding.message)
    assert ".to_iter_dataset(grain.ReadOptions(num_threads=0))" in finding.fix

    threaded = loader(workers=2, read_options=grain.ReadOptions())
    fix = only(THREADS, lint(threaded)).fix
    assert "DataLoader(read_options=grain.ReadOptions(num_threads=0))" in fix


def test_readers_that_share_workers_are_one_finding() -> None:
    """A mixture of many sources is one finding; threads without a buffer do not count."""
    branches = [source().to_iter_dataset(), source().to_iter_dataset()]
    report = lint(in_workers(grain.IterDataset.mix(branches), 1))
    finding = only(THREADS, report)
    assert kinds_of(finding, report) == ["ProcessPrefetch", "ToIter", "ToIter"]
    assert re.search(r"^2 .* 16 threads .*the worker of", finding.message)
    unbuffered = grain.ReadOptions(num_threads=4, prefetch_buffer_size=0)
    assert by_intent(in_workers(source().to_iter_dataset(unbuffered)), THREADS) == (None, None)


def test_threads_under_nested_workers_are_named_once() -> None:
    """The warning is about the worker that reads."""
    report = lint(in_workers(in_workers(source().to_iter_dataset())))
    assert only(THREADS, report).nodes[0] == only("nested-mp-prefetch", report).nodes[1]


def test_mp_prefetch_without_workers_is_a_warning() -> None:
    """Grain leaves no trace of it; the recording of the factory has it."""
    report = lint_factory(lambda: in_workers(elements().batch(4), workers=0))
    finding = only(NONE, report)
    assert (finding.severity, kinds_of(finding, report)) == ("warning", ["NoWorkers"])
    assert [finding.rule for finding in report.findings] == [NONE]
    assert not lint_factory(lambda: elements().batch(4)).graph.of_kind("NoWorkers")


def test_no_workers_may_be_a_remark() -> None:
    """Nothing is reported if a thread reads ahead, for a DataLoader, or after other workers."""

    def threaded() -> Any:
        return grain.experimental.ThreadPrefetchIterDataset(
            in_workers(elements(), workers=0), prefetch_buffer_size=2
        )

    assert only(NONE, lint_factory(threaded)).severity == "info"
    assert by_intent(loader(workers=0), NONE) == ("info", "info")
    assert by_intent(loader(workers=2), NONE) == (None, None)
    nested = lint_factory(lambda: in_workers(in_workers(elements()), workers=0))
    assert NONE not in {finding.rule for finding in nested.findings}


def test_more_workers_than_cores_are_a_warning(cores: Callable[[int], None]) -> None:
    """One worker per core is fine, and so are more if they wait for storage."""
    cores(4)
    assert by_intent(in_workers(elements(), 4), MANY) == (None, None)
    assert by_intent(in_workers(elements(), 5), MANY) == ("warning", "warning")
    finding = only(MANY, lint(in_workers(elements(), 5)))
    assert all(count in finding.message for count in ("5 workers", "4 cores"))
    assert "num_workers=4" in finding.fix
    assert "DataLoader(worker_count=4)" in only(MANY, lint(loader(workers=5))).fix
    waiting = lint(in_workers(elements(), 5), reads=Reads(wait=True, evidence="it waits"))
    assert [(aside.rule, aside.reason) for aside in waiting.silenced] == [(MANY, "it waits")]


def test_the_workers_of_all_branches_count(cores: Callable[[int], None]) -> None:
    """Parallel branches run at once; workers that never start do not count."""
    cores(4)
    branches = [in_workers(elements(), 3), in_workers(elements(), 3)]
    report = lint(grain.IterDataset.mix(branches))
    assert kinds_of(only(MANY, report), report) == ["ProcessPrefetch", "ProcessPrefetch"]
    assert "all 2 mp_prefetch" in only(MANY, report).fix
    assert by_intent(in_workers(in_workers(elements(), 3), 2), MANY) == (None, None)


def test_jax_in_a_worker_is_a_warning() -> None:
    """All uses of jax are one finding; numpy, and jax in the training process, are not reported."""

    def squared(element: Any) -> Any:
        return np.asarray(jnp.square(element))

    def doubled(element: Any) -> Any:
        return np.asarray(jnp.add(element, element))

    assert by_intent(in_workers(elements().map(squared)), JAX) == ("warning", "warning")
    assert by_intent(in_workers(elements().map(increment)), JAX) == (None, None)
    assert by_intent(in_workers(elements()).map(squared), JAX) == (None, None)
    report = lint(in_workers(source().map(squared).to_iter_dataset(NO_THREADS)))
    assert kinds_of(only(JAX, report), report) == ["ProcessPrefetch", "Map"]

    # Many functions are one finding, which names each function once, and all nodes.
    branches = [elements().map(squared) for _ in range(59)]
    report = lint(in_workers(grain.IterDataset.mix([*branches, elements().map(doubled)])))
    finding = only(JAX, report)
    assert len(finding.nodes) == 61
    assert finding.message.count("squared") == finding.message.count("doubled") == 1


def elastic(workers: int, threads: int = 0) -> Any:
    """An ElasticIterator with workers of its own."""
    return grain.experimental.ElasticIterator(
        source(),
        4,
        grain.sharding.NoSharding(),
        read_options=grain.ReadOptions(threads, threads),
        multiprocessing_options=grain.MultiprocessingOptions(workers),
    )


def test_the_workers_of_an_elastic_iterator_are_its_argument(cores: Callable[[int], None]) -> None:
    """The fixes for too many workers and for none name the argument."""
    cores(4)
    argument = "ElasticIterator(multiprocessing_options=grain.MultiprocessingOptions(num_workers="
    many = only(MANY, lint(elastic(5)))
    assert f"{argument}4))" in many.fix
    assert many.message.startswith("ElasticIterator ")
    assert "5 workers" in many.message
    none = only(NONE, lint_factory(lambda: elastic(0)))
    assert f"{argument}1))" in none.fix
    assert none.message.startswith("ElasticIterator ")


# ---- Objects sent to the workers


def look_up(element: int, table: Any) -> Any:
    """Return a row of the table."""
    return table[element]


def guarded(element: int, lock: Any) -> int:
    """Return the element under a lock."""
    with lock:
        return element


def with_table(size: int) -> Any:
    """A pipeline whose map holds a table of `size` bytes."""
    return elements().map(partial(look_up, table=np.zeros(size, np.uint8)))


def test_a_large_capture_is_a_warning() -> None:
    """The size in each worker and in all is named; captures add up, and small ones are silent."""
    large, half = with_table(LARGE_CAPTURE_BYTES), np.zeros(LARGE_CAPTURE_BYTES // 2, np.uint8)
    assert by_intent(in_workers(large), CAPTURE) == ("warning", "warning")
    assert by_intent(in_workers(with_table(LARGE_CAPTURE_BYTES // 2)), CAPTURE) == (None, None)
    assert by_intent(large, CAPTURE) == (None, None)
    late = in_workers(elements()).map(
        partial(look_up, table=np.zeros(LARGE_CAPTURE_BYTES, np.uint8))
    )
    assert by_intent(late, CAPTURE) == (None, None)
    both = elements().map(partial(look_up, table=half)).map(partial(look_up, table=half.copy()))
    assert by_intent(in_workers(both), CAPTURE) == ("warning", "warning")
    report = lint(in_workers(with_table(40_000_000), 3))
    finding = only(CAPTURE, report)
    assert kinds_of(finding, report) == ["ProcessPrefetch", "Map"]
    assert "40 MB" in finding.message
    assert "120 MB" in finding.message
    assert "mmap_mode" in finding.fix
    # The fix for a source is another.
    rows = grain.MapDataset.source(np.zeros((4, LARGE_CAPTURE_BYTES), np.uint8))
    finding = only(CAPTURE, lint(in_workers(rows.to_iter_dataset(NO_THREADS))))
    assert "ArrayRecordDataSource" in finding.fix


def test_an_unpicklable_function_is_an_error() -> None:
    """The message says what and why; in the training process it is fine."""
    locked = partial(guarded, lock=threading.Lock())
    assert by_intent(in_workers(elements().map(locked)), PICKLE) == ("error", "error")
    assert severities(in_workers(elements().map(locked))) == {PICKLE: "error"}
    assert by_intent(in_workers(elements()).map(locked), PICKLE) == (None, None)
    report = lint(in_workers(elements().map(locked)))
    assert kinds_of(only(PICKLE, report), report) == ["ProcessPrefetch", "Map"]
    assert "lock" in only(PICKLE, report).message

    # A mix of many branches is one finding, which names each function once.
    locks = [elements().map(partial(guarded, lock=threading.Lock())) for _ in range(59)]
    table = elements().map(partial(look_up, table=threading.Lock()))
    finding = only(PICKLE, lint(in_workers(grain.IterDataset.mix([*locks, table]))))
    assert len(finding.nodes) == 61
    assert finding.message.count("guarded") == finding.message.count("look_up") == 1

    # A worker_init_fn is found on mp_prefetch itself.
    report = lint(in_workers(elements(), worker_init_fn=locked))
    assert kinds_of(only(PICKLE, report), report) == ["ProcessPrefetch"]


def test_workers_for_a_bucket_keep_their_threads() -> None:
    """Reading without threads is proposed if reading does not wait, or might not."""
    dataset = source().to_iter_dataset().batch(4)
    fixes = [
        only(NONE, lint_factory(lambda: in_workers(dataset, workers=0), reads=reads)).fix
        for reads in (Reads(), Reads(evidence="it is local"), Reads(wait=True, evidence="it waits"))
    ]
    assert ["Read without threads" in fix for fix in fixes] == [True, True, False]
    assert ["unless reading waits" in fix for fix in fixes] == [True, False, False]
