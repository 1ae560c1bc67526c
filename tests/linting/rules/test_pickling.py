"""What the workers are sent."""

import threading
from functools import partial
from typing import Any

import grain
import numpy as np

from netpipe.linting.linter import lint
from netpipe.linting.rules.pickling import LARGE_BYTES
from tests.linting.rules.linting import (
    NO_THREADS,
    both,
    elements,
    in_workers,
    kinds,
    severities,
    the,
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
    assert both(in_workers(with_table(LARGE_BYTES)), CAPTURE) == ("warning", "warning")
    assert both(in_workers(with_table(LARGE_BYTES // 2)), CAPTURE) == (None, None)
    report = lint(in_workers(with_table(40_000_000), 3))
    finding = the(CAPTURE, report)
    assert kinds(finding, report) == ["ProcessPrefetch", "Map"]
    assert "40 MB must be pickled and sent to each of the 3 workers" in finding.message
    assert "120 MB in all" in finding.message
    assert "Keep a path in the transform" in finding.fix


def test_captures_add_up() -> None:
    """Two that are each below the limit are together above it."""
    half = np.zeros(LARGE_BYTES // 2, np.uint8)
    one = elements().map(partial(look_up, table=half))
    assert both(in_workers(one.map(partial(look_up, table=half.copy()))), CAPTURE)[0] == "warning"


def test_a_source_in_memory_is_told_how_to_be_one_on_disk() -> None:
    """The fix for a source is another than that for a transform."""
    rows = grain.MapDataset.source(np.zeros((4, LARGE_BYTES), np.uint8))
    finding = the(CAPTURE, lint(in_workers(rows.to_iter_dataset(NO_THREADS))))
    assert "ArrayRecordDataSource" in finding.fix


def test_a_capture_of_the_training_process_is_nobodys_business() -> None:
    """Nothing is sent where there are no workers below."""
    assert both(with_table(LARGE_BYTES), CAPTURE) == (None, None)
    late = in_workers(elements()).map(partial(look_up, table=np.zeros(LARGE_BYTES, np.uint8)))
    assert both(late, CAPTURE) == (None, None)


def test_what_cannot_be_pickled_is_an_error_before_it_runs() -> None:
    """The message says what and why; in the training process it is fine."""
    locked = partial(guarded, lock=threading.Lock())
    assert both(in_workers(elements().map(locked)), PICKLE) == ("error", "error")
    assert severities(in_workers(elements().map(locked))) == {PICKLE: "error"}
    assert both(in_workers(elements()).map(locked), PICKLE) == (None, None)
    report = lint(in_workers(elements().map(locked)))
    assert kinds(the(PICKLE, report), report) == ["ProcessPrefetch", "Map"]
    assert "lock" in the(PICKLE, report).message


def test_all_that_cannot_be_pickled_is_one_finding() -> None:
    """A mix of many branches says once of each function why it cannot be sent."""
    locks = [elements().map(partial(guarded, lock=threading.Lock())) for _ in range(59)]
    table = elements().map(partial(look_up, table=threading.Lock()))
    finding = the(PICKLE, lint(in_workers(grain.IterDataset.mix([*locks, table]))))
    assert len(finding.nodes) == 61
    assert finding.message.count("guarded") == finding.message.count("look_up") == 1


def test_what_a_worker_begins_with_is_sent_too() -> None:
    """A worker_init_fn that cannot be pickled is found on mp_prefetch itself."""
    begin = partial(guarded, lock=threading.Lock())
    report = lint(in_workers(elements(), worker_init_fn=begin))
    assert kinds(the(PICKLE, report), report) == ["ProcessPrefetch"]
