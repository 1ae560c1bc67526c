"""Runs: measurements sorted into buckets, and read in pieces that fit into memory."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from netpipe.workload.formats.addresses import Addresses, AddressTable
from netpipe.workload.formats.places import Place
from netpipe.workload.formats.rows import MEASUREMENT, MeasurementArray
from netpipe.workload.preparation.runs import Run, find_buckets, read_bucket, write_run

BUCKETS = 64
Part = tuple[MeasurementArray, AddressTable]
Row = tuple[object, ...]


def make_part(probes: NDArray[np.int64], seed: int, times: int = 50) -> Part:
    """Measurements of these probes at a few times, each with a code of its own."""
    rng = np.random.default_rng(seed)
    addresses = AddressTable()
    texts = pa.array([f"10.{n % 7}.0.{n % 251}" for n in rng.permutation(len(probes))])
    made = np.empty(len(probes), MEASUREMENT)
    made["probe"] = probes
    made["time_us"] = rng.integers(0, times, len(probes))
    made["rtt_code"] = 1000 * seed + np.arange(len(probes)) % 1000
    made["source"] = addresses.number_column(texts, np.full(len(probes), 4))
    made["destination"] = made["source"][::-1]
    return made, addresses


def write_all(folder: Path, parts: list[Part]) -> list[Run]:
    """Write each part as a run."""
    runs = [Run(Place.local(folder / f"{number}.run"), BUCKETS) for number in range(len(parts))]
    for run, (measurements, addresses) in zip(runs, parts, strict=True):
        write_run(run.place, measurements, addresses, BUCKETS)
    return runs


def read_all(runs: list[Run], limit: int = 1 << 22) -> tuple[list[Row], list[int]]:
    """Read all buckets: the measurements with their addresses, and the sizes of the pieces."""
    found: list[Row] = []
    sizes = []
    for bucket in range(BUCKETS):
        for piece, addresses in read_bucket(runs, bucket, limit):
            sizes.append(len(piece))
            found += zip(
                *(piece[name].tolist() for name in ("probe", "time_us", "rtt_code")),
                *(take_octets(addresses, piece[name]) for name in ("source", "destination")),
                strict=True,
            )
    return found, sizes


def take_octets(addresses: Addresses, numbers: NDArray[np.int64]) -> list[bytes]:
    """Return the 16 bytes of each address."""
    return list(map(bytes, addresses.take(numbers)["octets"]))


def sort_all(parts: list[Part]) -> list[Row]:
    """The measurements in the order of buckets, probes, times and input, sorted by Python."""
    rows: list[tuple[int, Row]] = []
    for measurements, addresses in parts:
        buckets = find_buckets(measurements["probe"].copy(), BUCKETS).tolist()
        source, destination = (
            take_octets(addresses, measurements[name]) for name in ("source", "destination")
        )
        columns = (measurements[name].tolist() for name in ("probe", "time_us", "rtt_code"))
        rows += zip(buckets, zip(*columns, source, destination, strict=True), strict=True)
    rows.sort(key=lambda row: (row[0], row[1][:2]))
    return [row for _, row in rows]


@pytest.mark.parametrize("limit", [1 << 22, 40, 5, 1])
@pytest.mark.parametrize("probes", [300, 3, 1], ids=["many probes", "few probes", "a giant probe"])
def test_buckets_are_read_in_order(tmp_path: Path, probes: int, limit: int) -> None:
    """Pieces of any size join to one sorted whole, and equal times keep their order."""
    rng = np.random.default_rng(probes)
    parts = [make_part(rng.integers(0, probes, 400), seed) for seed in range(3)]
    found, sizes = read_all(write_all(tmp_path, parts), limit)
    assert found == sort_all(parts)
    assert limit > 40 or len(sizes) > BUCKETS or probes == 3 or max(sizes) < 1200


@pytest.mark.parametrize("probes", [1, 2000], ids=["a giant probe", "a skewed hash"])
def test_a_large_bucket_is_read_in_pieces(
    tmp_path: Path, probes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No piece of it is much larger than the limit, whether it has one probe or many."""
    monkeypatch.setattr(
        "netpipe.workload.preparation.runs.find_buckets", lambda probes, _: np.zeros_like(probes)
    )
    parts = [make_part(np.arange(20_000) % probes, seed, times=10**6) for seed in range(3)]
    found, sizes = read_all(write_all(tmp_path, parts), 6000)
    assert len(found) == 60_000
    assert len(sizes) >= 10
    assert max(sizes) <= 6000 + 3 * 1500


def test_measurements_at_one_time_are_cut_between_runs(tmp_path: Path) -> None:
    """A probe whose measurements all have one time is read run by run."""
    parts = [make_part(np.zeros(1000, np.int64), seed, times=1) for seed in range(5)]
    found, sizes = read_all(write_all(tmp_path, parts), 1000)
    assert [row[2] for row in found] == list(range(5000))
    assert max(sizes) <= 2000


def test_many_probes_fill_the_buckets_alike() -> None:
    """A bucket has about its share of the probes."""
    sizes = np.bincount(find_buckets(np.arange(6400), BUCKETS), minlength=BUCKETS)
    assert 50 < sizes.min() <= sizes.max() < 200


def test_one_address_has_one_number(tmp_path: Path) -> None:
    """Runs that number addresses differently agree on them when they are read together."""
    runs = write_all(tmp_path, [make_part(np.zeros(300, np.int64), seed) for seed in range(2)])
    [(_, addresses)] = [each for bucket in range(BUCKETS) for each in read_bucket(runs, bucket)]
    octets = take_octets(addresses, np.arange(len(addresses)))
    assert len(set(octets)) == len(octets)


def test_many_short_sections_are_cut_too(tmp_path: Path) -> None:
    """Each run has only a few measurements of the bucket."""
    parts = [make_part(np.zeros(30, np.int64), seed, times=10**6) for seed in range(100)]
    _, sizes = read_all(write_all(tmp_path, parts), 400)
    assert sum(sizes) == 3000
    assert max(sizes) <= 800
