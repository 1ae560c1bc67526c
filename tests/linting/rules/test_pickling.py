"""What the workers are sent."""

import threading
from functools import partial
from typing import Any

import grain
import numpy as np

from netpipe.linting.linter import lint
from netpipe.linting.rules.workers import LARGE_BYTES
from tests.linting.rules.linting import (
    NO_THREADS,
    by_intent,
    elements,
    in_workers,
    kinds_of,
    only,
    severities,
)

CAPTURE = "large-capture"
PICKLE = "cannot-be-pickled"


def look_up(element: int, table: Any) -> Any:
    """Return a row of the table."""
    return table[element]


def guarded(element: int, lock: Any) -> int:
    """Return the element under a lock."""
    with lock:
        return element


def with_table(size: int) -> Any:
    """A pipeline whose map holds a table of so many bytes."""
    return elements().map(partial(look_up, table=np.zeros(size, np.uint8)))


def test_a_large_capture_is_a_warning() -> None:
    """What outweighs a worker is named with its size in each and in all; a small table is not."""
    assert by_intent(in_workers(with_table(LARGE_BYTES)), CAPTURE) == (
        "warning",
        "warning",
    )
    assert by_intent(in_workers(with_table(LARGE_BYTES // 2)), CAPTURE) == (None, None)
    report = lint(in_workers(with_table(40_000_000), 3))
    finding = only(CAPTURE, report)
    assert kinds_of(finding, report) == ["ProcessPrefetch", "Map"]
    assert "40 MB" in finding.message
    assert "120 MB" in finding.message
    assert "Keep a path in the transform" in finding.fix


def test_captures_add_up() -> None:
    """Two that are each below the limit are together above it."""
    half = np.zeros(LARGE_BYTES // 2, np.uint8)
    one = elements().map(partial(look_up, table=half))
    assert (
        by_intent(in_workers(one.map(partial(look_up, table=half.copy()))), CAPTURE)[0] == "warning"
    )


def test_a_source_in_memory_should_open_a_file_instead() -> None:
    """The fix for a source is another than that for a transform."""
    rows = grain.MapDataset.source(np.zeros((4, LARGE_BYTES), np.uint8))
    finding = only(CAPTURE, lint(in_workers(rows.to_iter_dataset(NO_THREADS))))
    assert "ArrayRecordDataSource" in finding.fix


def test_a_capture_of_the_training_process_is_nobodys_business() -> None:
    """Nothing is sent where there are no workers below."""
    assert by_intent(with_table(LARGE_BYTES), CAPTURE) == (None, None)
    late = in_workers(elements()).map(partial(look_up, table=np.zeros(LARGE_BYTES, np.uint8)))
    assert by_intent(late, CAPTURE) == (None, None)


def test_an_unpicklable_function_is_an_error() -> None:
    """The message says what and why; in the training process it is fine."""
    locked = partial(guarded, lock=threading.Lock())
    assert by_intent(in_workers(elements().map(locked)), PICKLE) == ("error", "error")
    assert severities(in_workers(elements().map(locked))) == {PICKLE: "error"}
    assert by_intent(in_workers(elements()).map(locked), PICKLE) == (None, None)
    report = lint(in_workers(elements().map(locked)))
    assert kinds_of(only(PICKLE, report), report) == ["ProcessPrefetch", "Map"]
    assert "lock" in only(PICKLE, report).message


def test_all_that_cannot_be_pickled_is_one_finding() -> None:
    """A mix of many branches says once of each function why it cannot be sent."""
    locks = [elements().map(partial(guarded, lock=threading.Lock())) for _ in range(59)]
    table = elements().map(partial(look_up, table=threading.Lock()))
    finding = only(PICKLE, lint(in_workers(grain.IterDataset.mix([*locks, table]))))
    assert len(finding.nodes) == 61
    assert finding.message.count("guarded") == finding.message.count("look_up") == 1


def test_the_worker_init_function_is_sent_too() -> None:
    """A worker_init_fn that cannot be pickled is found on mp_prefetch itself."""
    begin = partial(guarded, lock=threading.Lock())
    report = lint(in_workers(elements(), worker_init_fn=begin))
    assert kinds_of(only(PICKLE, report), report) == ["ProcessPrefetch"]
