"""Random access to rows, and the errors of damaged files."""

import json
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from netpipe.errors import InputError
from netpipe.workload.formats.index import INDEX_NAME, load_index
from netpipe.workload.formats.rows import ProbeRow, take
from netpipe.workload.preparation.prepare import prepare
from netpipe.workload.sources.parquet_source import ParquetSource
from netpipe.workload.sources.probe_rows import (
    ArrayRecordSource,
    RowSource,
    UnindexedSource,
    open_source,
)
from tests.workload.factories import as_table, make_pings, write_probes
from tests.workload.layout_v0 import encode_row_v0, write_records
from tests.workload.reference import Ping


@pytest.fixture
def copied(tmp_path: Path, prepared: Path) -> Path:
    """A copy of the prepared folder, to damage."""
    return Path(shutil.copytree(prepared, tmp_path / "copied"))


@pytest.fixture(scope="module")
def inherited(tmp_path_factory: pytest.TempPathFactory, histories: dict[int, list[Ping]]) -> Path:
    """The measurements as they were inherited: two files of layout 0, one empty, no index."""
    folder = tmp_path_factory.mktemp("inherited")
    records = [encode_row_v0(pings, probe) for probe, pings in histories.items()]
    for number, part in enumerate((records[:5], [], records[5:])):
        write_records(folder / f"probes-{number}.arrayrecord", part)
    return folder


def _all_content(source: RowSource) -> set[tuple[object, ...]]:
    rows = source.read(range(len(source.row_measurements)))
    assert [len(row) for row in rows] == source.row_measurements.tolist()
    return {_content(row) for row in rows}


def _content(row: ProbeRow) -> tuple[object, ...]:
    measured = take([row], [np.arange(len(row))])
    return (row.probe, *(value.tobytes() for value in vars(measured).values()))


def test_rows_come_in_the_order_asked(prepared: Path) -> None:
    """Reading by number gives each row, as often as asked."""
    source = open_source(prepared, "train")
    counts = source.row_measurements
    asked = [len(counts) - 1, 0, 3, 3]
    assert [len(row) for row in source.read(asked)] == counts[asked].tolist()


def test_another_split_has_another_fingerprint(tmp_path: Path) -> None:
    """A state saved with one split does not fit another one of equal sizes, or in other shards."""
    pings = {probe: make_pings(9, seed=probe) for probe in range(20)}
    write_probes(tmp_path / "a.parquet", pings)
    found = []
    for seed, shards in ((0, 1), (0, 3), (1, 1), (2, 1)):
        out = tmp_path / f"{seed}-{shards}"
        prepare([tmp_path / "a.parquet"], out, seed=seed, shards=shards, eval_fraction=0.2)
        found.append(open_source(out, "train").fingerprint)
    assert len(set(found)) == 4


def test_other_measurements_have_another_fingerprint(tmp_path: Path) -> None:
    """Data that nobody prepared have other rows on another day, though as many of each probe."""
    found = []
    for day in range(2):
        pings = {probe: make_pings(9, seed=100 * day + probe) for probe in range(20)}
        records = [encode_row_v0(each, probe) for probe, each in pings.items()]
        for kind in ("parquet", "records"):
            (tmp_path / f"{kind}-{day}").mkdir()
        write_probes(tmp_path / f"parquet-{day}" / "a.parquet", pings)
        write_records(tmp_path / f"records-{day}" / "a.arrayrecord", records)
        found += [
            open_source(tmp_path / f"{kind}-{day}", "train") for kind in ("parquet", "records")
        ]
    assert len({source.fingerprint for source in found}) == 4


def test_parquet_gives_the_same_rows(prepared: Path, parquet: Path) -> None:
    """Straight from parquet each probe has the measurements that prepare gives it."""
    sources = [ParquetSource(parquet, split) for split in ("train", "eval")]
    prepared_sources = [ArrayRecordSource(prepared, split) for split in ("train", "eval")]
    train, evaluation = map(_all_content, sources)
    assert train | evaluation == set.union(*map(_all_content, prepared_sources))
    probes, eval_probes = ({content[0] for content in rows} for rows in (train, evaluation))
    assert probes
    assert eval_probes
    assert not probes & eval_probes
    assert isinstance(open_source(parquet, "eval"), ParquetSource)


@pytest.mark.parametrize("data", ["prepared", "parquet", "inherited"])
def test_a_used_source_can_be_pickled(request: pytest.FixtureRequest, data: str) -> None:
    """A source is pickled without its open readers and rows, and reads the same afterwards."""
    source = open_source(request.getfixturevalue(data), "train")
    before = _all_content(source)
    pickled = pickle.dumps(source)
    assert len(pickled) < 2000
    assert _all_content(pickle.loads(pickled)) == before


def test_nothing_to_read(tmp_path: Path) -> None:
    """A folder without data, a missing folder and a file give different errors."""
    with pytest.raises(InputError, match=r"none.*`netpipe prepare`"):
        open_source(tmp_path, "train")
    with pytest.raises(InputError, match=r"absent: .*found nothing"):
        open_source(tmp_path / "absent", "train")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file: .*found a file"):
        open_source(tmp_path / "file", "train")


def test_shards_without_an_index(copied: Path) -> None:
    """Our own shards are not read without the index, which alone knows their splits."""
    (copied / INDEX_NAME).unlink()
    with pytest.raises(InputError, match=r"record 0: .*index\.json"):
        open_source(copied, "train")


@pytest.mark.parametrize("split", ["train", "eval"])
def test_inherited_files_need_no_index(inherited: Path, parquet: Path, split: str) -> None:
    """Files of layout 0 give the rows, and the split, that the same measurements in parquet do."""
    source = open_source(inherited, split)
    assert isinstance(source, UnindexedSource)
    assert _all_content(source) == _all_content(ParquetSource(parquet, split))


def test_inherited_rows_are_counted_without_reading_them(tmp_path: Path) -> None:
    """Opening trusts the number beside the measurements; reading a row checks it."""
    lying = [encode_row_v0(make_pings(9, seed=n), n, measurements=5) for n in range(2)]
    write_records(tmp_path / "lying.arrayrecord", lying)
    source = open_source(tmp_path, "train")
    assert source.row_measurements.tolist() == [5]
    with pytest.raises(InputError, match=r"record \d: n_measurements.* 9.*found 5"):
        source.read([0])


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (encode_row_v0(make_pings(9, seed=0), 1, measurements=0), "n_measurements.* 0"),
        (encode_row_v0(make_pings(9, seed=0), None), "record.*layout 0"),
        (b"something else", r"record.*layout 0.*index\.json"),
    ],
)
def test_an_inherited_record_that_cannot_be_counted(
    tmp_path: Path, record: bytes, message: str
) -> None:
    """A record without measurements, without a probe or of another kind is named on opening."""
    write_records(tmp_path / "one.arrayrecord", [record])
    with pytest.raises(InputError, match=rf"one\.arrayrecord, record 0: {message}"):
        open_source(tmp_path, "train")


def test_inherited_files_that_cannot_be_used(tmp_path: Path, inherited: Path) -> None:
    """A file that is cut short is named, and a folder of no rows cannot be split."""
    whole = (inherited / "probes-2.arrayrecord").read_bytes()
    path = tmp_path / "cut.arrayrecord"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cut\.arrayrecord: file.* \d+ bytes"):
        open_source(tmp_path, "train")
    write_records(path, [])
    with pytest.raises(InputError, match=r"probes.* 2.*found 0"):
        open_source(tmp_path, "train")


def test_an_empty_row_group_is_passed_over(tmp_path: Path) -> None:
    """A row group without rows, between others, changes nothing."""
    parts = [as_table(make_pings(9, seed=n), probe=n) for n in range(2)]
    parts.insert(1, parts[0].slice(0, 0))
    with pq.ParquetWriter(tmp_path / "groups.parquet", parts[0].schema) as writer:
        for part in parts:
            writer.write_table(part)
    assert pq.ParquetFile(tmp_path / "groups.parquet").num_row_groups == 3
    source = open_source(tmp_path, "train")
    assert [len(row) for row in source.read([0])] == source.row_measurements.tolist() == [9]


@pytest.mark.parametrize(
    "content", [0, 0.5, 0.9, b"something else" * 10_000], ids=["empty", "half", "90%", "other"]
)
def test_a_damaged_shard(copied: Path, content: float | bytes) -> None:
    """A shard that is cut short, or not an ArrayRecord file, is named when it is opened."""
    shard = copied / load_index(copied).train.shards[1].file
    whole = shard.read_bytes()
    kept = content if isinstance(content, bytes) else whole[: int(content * len(whole))]
    shard.write_bytes(kept)
    with pytest.raises(InputError, match=f"{shard.name}: shard .*truncated"):
        open_source(copied, "train")


def test_a_missing_shard(copied: Path) -> None:
    """A shard that the index names must be there."""
    shard = copied / load_index(copied).train.shards[0].file
    shard.unlink()
    with pytest.raises(InputError, match=f"{shard.name}: shard .*no file"):
        open_source(copied, "train")


def test_a_damaged_record(copied: Path) -> None:
    """Damage inside a shard is an error of its record, when that is read."""
    shard = copied / load_index(copied).train.shards[0].file
    damaged = bytearray(shard.read_bytes())
    damaged[100:120] = bytes(20)
    shard.write_bytes(damaged)
    source = open_source(copied, "train")
    with pytest.raises(InputError, match=f"{shard.name}, record 0: "):
        source.read([0])


@pytest.mark.parametrize("change", [-1, 1])
def test_a_count_that_is_not_the_records(copied: Path, change: int) -> None:
    """A row that is shorter or longer than the index says is an error when it is read."""
    index = json.loads((copied / INDEX_NAME).read_text())
    shard = index["train"]["shards"][0]
    count = shard["row_measurements"][-1]
    shard["row_measurements"][-1] = count + change
    (copied / INDEX_NAME).write_text(json.dumps(index))
    last = len(shard["row_measurements"]) - 1
    source = open_source(copied, "train")
    message = f"{shard['file']}, record {last}: .*{count + change} measurements.*found {count}"
    with pytest.raises(InputError, match=message):
        source.read([last])


def test_linked_records_are_read_once(tmp_path: Path, inherited: Path) -> None:
    """A link to an inherited file beside it adds no rows."""
    shutil.copytree(inherited, tmp_path / "data")
    before = open_source(tmp_path / "data", "train").row_measurements.tolist()
    first = min((tmp_path / "data").iterdir())
    (tmp_path / "data" / "z.arrayrecord").symlink_to(first)
    assert open_source(tmp_path / "data", "train").row_measurements.tolist() == before


def test_a_worker_does_not_load_what_checks_an_index() -> None:
    """Each worker of a loader imports the sources, and reads no index."""
    source = "import sys, netpipe.workload.sources.probe_rows; print('jsonschema' in sys.modules)"
    command = [sys.executable, "-c", source]
    assert subprocess.run(command, check=True, capture_output=True).stdout == b"False\n"
