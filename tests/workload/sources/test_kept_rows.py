"""Rows in memory that all processes share."""

from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import cloudpickle
import numpy as np
import psutil
import pytest

from netpipe.workload.formats.layout import encode_row
from netpipe.workload.formats.rows import ProbeRow
from netpipe.workload.sources.kept_rows import KeptRows
from netpipe.workload.sources.probe_rows import RowSource, open_source


class Counting:
    """A source that counts how often each row is read."""

    def __init__(self, source: RowSource) -> None:
        self.source = source
        self.reads: list[int] = []
        self.row_measurements, self.row_group = source.row_measurements, source.row_group
        self.fingerprint = source.fingerprint

    def read(self, rows: "list[int]") -> list[ProbeRow]:
        """Read, and note the rows."""
        self.reads += list(rows)
        return self.source.read(rows)


@pytest.fixture(params=["prepared", "parquet"])
def counting(request: pytest.FixtureRequest) -> Counting:
    """A source of each kind."""
    return Counting(open_source(request.getfixturevalue(request.param), "train"))


def assert_same(left: list[ProbeRow], right: list[ProbeRow]) -> None:
    """Compare rows by their records."""
    assert list(map(encode_row, left)) == list(map(encode_row, right))


def test_kept_rows_are_read_once(counting: Counting) -> None:
    """The source is not read again, for any rows in any order."""
    count = len(counting.row_measurements)
    expected = counting.source.read(range(count))
    kept = KeptRows(counting, 1 << 30)  # type: ignore[arg-type]
    assert (len(kept._bounds) - 1, sorted(counting.reads)) == (count, list(range(count)))
    assert_same(kept.read([3, 0, count - 1, 3]), [expected[row] for row in (3, 0, count - 1, 3)])
    assert sorted(counting.reads) == list(range(count))
    assert (kept.fingerprint, kept.row_group is None) == (
        counting.fingerprint, counting.row_group is None,
    )  # fmt: skip


def test_what_exceeds_the_budget_is_read_when_it_is_wanted(counting: Counting) -> None:
    """The first rows are kept, and rows of both kinds come in the order that was asked for."""
    expected = counting.source.read(range(len(counting.row_measurements)))
    budget = sum(len(encode_row(row)) for row in expected[:4])
    kept = KeptRows(counting, budget)  # type: ignore[arg-type]
    assert len(kept._bounds) == 5
    assert str(kept) == f"4 of {len(expected)} ({4 / len(expected):.0%}, 0 MiB)"
    counting.reads.clear()
    wanted = [7, 2, 5, 0]
    assert_same(kept.read(wanted), [expected[row] for row in wanted])
    assert counting.reads == [7, 5]
    assert KeptRows(counting, 1)._bounds == [0]  # type: ignore[arg-type]
    assert_same(KeptRows(counting, 1).read([1]), expected[1:2])  # type: ignore[arg-type]


def read_in_child(pickled: bytes, queue: "object") -> None:
    """Read rows in another process; send them, and its own memory in bytes."""
    kept = cloudpickle.loads(pickled)
    records = [encode_row(row) for row in kept.read(range(len(kept._bounds) - 1))]
    maps = [each for each in psutil.Process().memory_maps() if "netpipe-rows" in each.path]
    queue.put((records, [each.private_dirty for each in maps]))  # type: ignore[attr-defined]


def test_other_processes_use_the_same_memory(prepared: Path) -> None:
    """A pickled copy is small, and no process has a page of the rows for itself."""
    source = open_source(prepared, "train")
    kept = KeptRows(source, 1 << 30)
    pickled = cloudpickle.dumps(kept)
    # Reading maps every page here too: a page that only one process maps counts as its own.
    rows = kept.read(range(len(kept._bounds) - 1))
    assert len(pickled) < sum(len(encode_row(row)) for row in rows)
    context = get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=read_in_child, args=(pickled, queue))
    child.start()
    records, dirty = queue.get(timeout=60)
    child.join()
    assert records == [encode_row(row) for row in source.read(range(len(kept._bounds) - 1))]
    assert dirty == [0]


def count_own_files() -> int:
    """Count the open files in which this process keeps rows."""
    found = 0
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += "netpipe-rows" in str(path.readlink())
    return found


def test_the_memory_is_free_when_nobody_uses_it(prepared: Path) -> None:
    """The rows lie in memory without a file name."""
    before = count_own_files()
    kept = KeptRows(open_source(prepared, "train"), 1 << 30)
    assert count_own_files() > before
    rows = kept.read([0])
    del kept, rows
    assert count_own_files() == before


def test_rows_are_views_of_the_shared_memory(prepared: Path) -> None:
    """Nothing is copied when a row is read."""
    (row,) = KeptRows(open_source(prepared, "train"), 1 << 30).read([0])
    assert not row.offset_s.flags.owndata
    assert not row.offset_s.flags.writeable
    assert np.all(np.diff(row.offset_s.astype(np.int64)) >= 0)
