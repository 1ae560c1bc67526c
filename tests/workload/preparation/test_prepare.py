"""parquet to probe rows."""

import re
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from netpipe.errors import InputError
from netpipe.workload.formats import shards as formats_shards
from netpipe.workload.formats.index import load_index
from netpipe.workload.formats.rows import take
from netpipe.workload.formats.rtt import encode_rtt
from netpipe.workload.preparation.prepare import prepare
from netpipe.workload.sources.probe_rows import ArrayRecordSource
from tests.workload.factories import as_table, make_pings, write_probes
from tests.workload.reference import Ping

SEATTLE = Path(__file__).parents[3] / "shared/data/seattle"


def _seconds_by_probe(folder: Path, split: str) -> dict[int, list[int]]:
    source = ArrayRecordSource(folder, split)
    rows = source.read(range(len(source.row_measurements)))
    assert [len(row) for row in rows] == source.row_measurements.tolist()
    found: dict[int, list[int]] = {}
    for row in rows:
        found.setdefault(row.probe, []).extend(take([row], [np.arange(len(row))]).second.tolist())
    return found


def test_every_measurement_is_in_one_split(
    prepared: Path, histories: dict[int, list[Ping]]
) -> None:
    """Both splits together hold each probe once, with its whole history in time order."""
    train, evaluation = (_seconds_by_probe(prepared, split) for split in ("train", "eval"))
    assert train
    assert evaluation
    assert not train.keys() & evaluation.keys()
    expected = {
        probe: [ping.time_us // 1_000_000 for ping in pings] for probe, pings in histories.items()
    }
    assert train | evaluation == expected


def test_the_index_lists_the_shards(prepared: Path, histories: dict[int, list[Ping]]) -> None:
    """Counts, settings and file names are in the index, and nothing else is in the folder."""
    index = load_index(prepared)
    assert index.train.probes + index.eval.probes == len(histories)
    total = sum(len(pings) for pings in histories.values())
    assert index.train.measurements + index.eval.measurements == total
    shards = [shard.file for split in (index.train, index.eval) for shard in split.shards]
    assert [re.sub("-[0-9a-f]{16}", "", name) for name in shards] == [
        "train-00000-of-00003.arrayrecord",
        "train-00001-of-00003.arrayrecord",
        "train-00002-of-00003.arrayrecord",
        "eval-00000-of-00001.arrayrecord",
    ]
    assert len(set(shards)) == 4
    assert sorted(path.name for path in prepared.iterdir()) == sorted([*shards, "index.json"])


def test_the_same_data_give_the_same_files(tmp_path: Path, parquet: Path, prepared: Path) -> None:
    """Preparing again gives the same bytes; other measurements have another fingerprint."""
    again = prepare([parquet], tmp_path / "again", shards=3, eval_fraction=0.2)
    for path in prepared.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()
    write_probes(tmp_path / "other.parquet", {1: make_pings(9, seed=0), 2: make_pings(9, seed=1)})
    other = prepare([tmp_path / "other.parquet"], tmp_path / "other")
    assert other.fingerprint != again.fingerprint


def test_another_seed_splits_differently(tmp_path: Path, parquet: Path, prepared: Path) -> None:
    """The split follows the seed."""
    prepare([parquet], tmp_path / "out", seed=1, eval_fraction=0.2)
    other = _seconds_by_probe(tmp_path / "out", "eval").keys()
    assert other != _seconds_by_probe(prepared, "eval").keys()


def test_rows_are_cut(
    tmp_path: Path, parquet: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A smaller row limit gives more rows of the same measurements."""
    monkeypatch.setattr("netpipe.workload.formats.rows.ROW_BYTES", 1024)
    prepare([parquet], tmp_path / "out", eval_fraction=0.2)
    assert load_index(tmp_path / "out").train.rows > load_index(prepared).train.rows
    cut, whole = (_seconds_by_probe(folder, "train") for folder in (tmp_path / "out", prepared))
    assert {probe: sorted(seconds) for probe, seconds in cut.items()} == whole


def test_files_of_one_probe_are_joined(tmp_path: Path) -> None:
    """A probe's measurements in several files become one history, whatever the files' order."""
    pings = make_pings(90, seed=0)
    for number, part in enumerate((pings[60:], pings[:30], pings[30:60])):
        write_probes(tmp_path / f"{number}.parquet", {1: part, 2: part})
    prepare([tmp_path], tmp_path.parent / f"{tmp_path.name}-out")
    (history,) = _seconds_by_probe(tmp_path.parent / f"{tmp_path.name}-out", "train").values()
    assert history == [ping.time_us // 1_000_000 for ping in pings]


def test_a_bad_value_leaves_nothing_behind(tmp_path: Path, parquet: Path) -> None:
    """An error in the last file leaves neither an output folder nor temporary files."""
    table = as_table(make_pings(10, seed=0), probe=1)
    bad = table.set_column(4, "rtt", pa.array([float("nan")] * 10, pa.float32()))
    pq.write_table(bad, tmp_path / "bad.parquet")
    with pytest.raises(InputError, match=r"bad.*rtt, row 0,.*nan"):
        prepare([parquet, tmp_path / "bad.parquet"], tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.parquet"]


@pytest.fixture
def full_after() -> Iterator[Callable[[int], None]]:
    """Limit the size of files; the system's error is that of a large file."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("size", [0, 1, 20_000, 24_000])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, parquet: Path, full_after: Callable[[int], None], size: int, is_new: bool
) -> None:
    """Whatever cannot be written, the spill or a shard, the error is one line."""
    out = tmp_path / "out"
    if not is_new:
        prepare([parquet], out, shards=1, seed=1)
    before = sorted(tmp_path.rglob("*"))
    full_after(size)
    with pytest.raises(InputError, match=rf"{out}: .*be writable; found .*File too large$"):
        prepare([parquet], out, shards=1)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("method", ["write", "close"])
def test_a_writer_that_fails_is_an_input_error(
    tmp_path: Path, parquet: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The writer of shards has errors of its own, for everything that the system refuses."""

    class Full:
        def __init__(self, path: str, _: str) -> None:
            Path(path).touch()

        def __getattr__(self, name: str) -> Callable[..., None]:
            def call(*_: object) -> None:
                if name == method:
                    raise RuntimeError("write() failed: ENOSPC; writing /x")

            return call

    monkeypatch.setattr(formats_shards, "ArrayRecordWriter", Full)
    with pytest.raises(InputError, match=r"found write\(\) failed: ENOSPC$"):
        prepare([parquet], tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_fewer_rows_than_shards(tmp_path: Path) -> None:
    """No shard is empty: their number follows the rows."""
    write_probes(tmp_path / "two.parquet", {1: make_pings(9, seed=0), 2: make_pings(9, seed=1)})
    index = prepare([tmp_path / "two.parquet"], tmp_path / "out", shards=8)
    assert len(index.train.shards) == 1
    assert index.train.shards[0].file.startswith("train-00000-of-00001-")


@pytest.mark.skipif(not SEATTLE.is_dir(), reason="the real measurements are not here")
def test_a_slice_of_real_measurements(tmp_path: Path) -> None:
    """All of twenty thousand real measurements are prepared, with their round-trip times."""
    file = min(SEATTLE.glob("*.parquet"))
    table = pq.read_table(file).slice(0, 20_000)
    pq.write_table(table, tmp_path / "slice.parquet")
    index = prepare([tmp_path / "slice.parquet"], tmp_path / "out")
    assert index.train.measurements + index.eval.measurements == 20_000
    assert index.train.probes + index.eval.probes == len(table["src_addr"].unique())
    codes: Counter[int] = Counter()
    for split in ("train", "eval"):
        source = ArrayRecordSource(tmp_path / "out", split)
        for row in source.read(range(len(source.row_measurements))):
            codes.update(row.rtt_code.tolist())
    assert codes == Counter(encode_rtt(table["rtt"].to_numpy()).tolist())
