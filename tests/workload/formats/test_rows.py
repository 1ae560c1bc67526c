"""Cutting histories into probe rows."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netpipe.workload.formats import rows as rows_module
from netpipe.workload.formats.addresses import AddressTable
from netpipe.workload.formats.parquet import read_parquet
from netpipe.workload.formats.rows import (
    MAX_ROW_MEASUREMENTS,
    MEASUREMENT,
    MeasurementArray,
    cut_rows,
    make_row,
    number_values,
    sort_by_probe,
    split_sorted,
    take,
)
from netpipe.workload.sampling.sampler import Contexts
from netpipe.workload.tokens.tokenizer import encode as encode_vectorised
from tests.workload.factories import as_row, as_table, make_pings
from tests.workload.reference import Told, encode


def _history(folder: Path, count: int) -> tuple[MeasurementArray, AddressTable]:
    path, addresses = folder / "history.parquet", AddressTable()
    pq.write_table(as_table(make_pings(count, seed=3), probe=-9), path)
    return np.concatenate(list(read_parquet(path, addresses))), addresses


def test_a_row_gives_its_measurements_back() -> None:
    """Each position of a row is the measurement that was put there, whatever its pair."""
    pings = make_pings(200, seed=4)
    row = as_row(pings)
    measured = take([row], [np.arange(200)])
    contexts = Contexts(measured, np.array([200]), np.ones(200, bool), np.zeros(200, np.uint8))
    assert encode_vectorised(contexts).tokens.tolist() == encode([Told(p, True, 0) for p in pings])
    assert row.array_bytes < 200 * 8 + 40 * 18 + 4 * 16 + 1


@pytest.mark.parametrize("row_bytes", [1024, 1500, 100_000])
def test_rows_hold_no_more_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_bytes: int
) -> None:
    """Rows are at most as large as asked, about equally long, and together the history."""
    monkeypatch.setattr(rows_module, "ROW_BYTES", row_bytes)
    history, addresses = _history(tmp_path, 1000)
    rows = list(cut_rows(history, addresses))
    whole = make_row(history, addresses)
    assert all(row.array_bytes <= row_bytes for row in rows)
    assert max(len(row) for row in rows) <= 2 * min(len(row) for row in rows)
    seconds = np.concatenate([take([row], [np.arange(len(row))]).second for row in rows])
    np.testing.assert_array_equal(seconds, take([whole], [np.arange(1000)]).second)
    assert {row.probe for row in rows} == {-9}


def test_one_measurement_is_always_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit below one measurement gives rows of one."""
    monkeypatch.setattr(rows_module, "ROW_BYTES", 1)
    rows = list(cut_rows(*_history(tmp_path, 5)))
    assert [len(row) for row in rows] == [1] * 5


def test_rows_are_limited_in_length_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row has at most 65,536 measurements, and spans at most 2**32 - 1 seconds."""
    monkeypatch.setattr(rows_module, "ROW_BYTES", 1 << 30)
    history, addresses = _history(tmp_path, 10)
    long = np.resize(history, MAX_ROW_MEASUREMENTS + 1)
    long["time_us"] = 0
    assert [len(row) for row in cut_rows(long, addresses)] == [32_769, 32_768]
    history["time_us"] = np.linspace(0, 1 << 53, 10).astype(np.int64)
    rows = list(cut_rows(history, addresses))
    seconds = np.concatenate([take([row], [np.arange(len(row))]).second for row in rows])
    np.testing.assert_array_equal(seconds, history["time_us"] // 1_000_000)


@given(
    values=st.lists(st.integers(0, 40), min_size=1, max_size=60), bound=st.sampled_from([41, 10**6])
)
def test_values_are_numbered_as_if_they_were_sorted(values: list[int], bound: int) -> None:
    """A table of all possible values and sorting give the same numbers."""
    array = np.array(values, np.int32)
    distinct, places = np.unique(array, return_inverse=True)
    found, found_places = number_values(array, bound)
    assert found.tolist() == distinct.tolist()
    assert found_places.tolist() == places.tolist()


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 5)), min_size=1, max_size=40))
def test_histories_are_in_the_order_of_probes_and_times(pairs: list[tuple[int, int]]) -> None:
    """Equal times keep their order, whatever order the measurements come in."""
    measurements = np.zeros(len(pairs), MEASUREMENT)
    for number, (probe, time_us) in enumerate(pairs):
        measurements[number]["probe"], measurements[number]["time_us"] = probe, time_us
        measurements[number]["source"] = number
    found = [history.tolist() for history in split_sorted(sort_by_probe(measurements))]
    expected = sorted(measurements.tolist(), key=lambda each: (each[0], each[1], each[2]))
    assert [each for history in found for each in history] == expected
    assert all(len({each[0] for each in history}) == 1 for history in found)
    assert len(found) == len({probe for probe, _ in pairs})
