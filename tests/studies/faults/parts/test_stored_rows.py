"""Pipelines over a storage: records, speeds and shards."""

import pickle
from itertools import islice
from statistics import fmean

import grain
import pytest

from perf_tests.studies.faults.parts.batches import ROWS, Batch, row
from perf_tests.studies.faults.parts.stored_rows import Records, Shards, in_shards, stored


def test_records_have_sizes_that_tell_bytes_from_requests() -> None:
    """Sizes differ by a factor of about four around their mean, the same in every process."""
    records = Records(10e3)
    sizes = [records[number]["payload"].nbytes for number in range(2000)]
    assert fmean(sizes) == pytest.approx(10e3, rel=0.03)
    assert 3.8 < max(sizes) / min(sizes) < 4.1
    again = pickle.loads(pickle.dumps(records))
    assert [again[number]["payload"].nbytes for number in range(9)] == sizes[:9]


def test_shards_are_read_in_turn() -> None:
    """`together` records come from one shard before the next."""
    first, second = {"row": row(1)}, {"row": row(2)}
    shards = Shards(([first] * 8, [second] * 8), together=2)
    read = [shards[number] for number in range(5)]
    assert [record is first for record in read] == [True, True, False, False, True]


def test_batches_of_a_storage_are_those_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches repeat the rows in order, even from shards and with threads."""
    monkeypatch.setenv("NETPIPE_STORAGES", "")  # set for the processes of a session
    epochs = stored("latency=0s,tail=0s", records=Records(records=2 * ROWS))
    assert [_first_row(batch) for batch in islice(epochs, 3)] == [0, ROWS, 0]
    sharded = in_shards(1e-6, 10.0, together=1, reads=grain.ReadOptions(num_threads=2))
    assert [_first_row(batch) for batch in islice(sharded, 3)] == [0, ROWS, 2 * ROWS]


def _first_row(batch: Batch) -> int:
    return int(batch["tokens"][0, 0])
