"""Random access to rows, and what is said when they are damaged."""

import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

from netpipe.data.index import INDEX_NAME, load_index
from netpipe.data.parquet_source import ParquetSource
from netpipe.data.rows import ProbeRow
from netpipe.data.sources import ArrayRecordSource, open_source
from netpipe.errors import InputError


@pytest.fixture
def copied(tmp_path: Path, prepared: Path) -> Path:
    """A copy of the prepared folder, to damage."""
    return Path(shutil.copytree(prepared, tmp_path / "copied"))


def _content(row: ProbeRow) -> tuple[object, ...]:
    measured = row.take(np.arange(len(row)))
    return (row.probe, *(value.tobytes() for value in vars(measured).values()))


def test_rows_come_in_the_order_asked(prepared: Path) -> None:
    """Reading by number gives each row, as often as asked."""
    source = open_source(prepared, "train")
    counts = source.row_measurements
    asked = [len(counts) - 1, 0, 3, 3]
    assert [len(row) for row in source.read(asked)] == counts[asked].tolist()


def test_a_used_source_can_be_pickled(prepared: Path) -> None:
    """A source with open readers travels without them, and reads on the other side."""
    source = open_source(prepared, "train")
    before = source.read([2])
    pickled = pickle.dumps(source)
    assert len(pickled) < 2000
    assert [_content(row) for row in pickle.loads(pickled).read([2])] == [
        _content(row) for row in before
    ]


def test_parquet_gives_the_same_rows(prepared: Path, parquet: Path) -> None:
    """Straight from parquet each probe has the measurements that prepare gives it."""
    direct = [ParquetSource(parquet, split) for split in ("train", "eval")]
    made = [ArrayRecordSource(prepared, split) for split in ("train", "eval")]
    contents = [
        {_content(row) for one in side for row in one.read(range(len(one.row_measurements)))}
        for side in (direct, made)
    ]
    assert contents[0] == contents[1]
    probes = [{row.probe for row in one.read(range(len(one.row_measurements)))} for one in direct]
    assert all(probes)
    assert not probes[0] & probes[1]
    assert isinstance(open_source(parquet, "eval"), ParquetSource)


def test_a_parquet_source_can_be_pickled(parquet: Path) -> None:
    """A parquet source travels without its rows."""
    source = ParquetSource(parquet, "train")
    pickled = pickle.dumps(source)
    assert len(pickled) < 2000
    assert _content(pickle.loads(pickled).read([1])[0]) == _content(source.read([1])[0])


def test_nothing_to_read(tmp_path: Path) -> None:
    """A folder without data, no folder and a file are told apart."""
    with pytest.raises(InputError, match="must hold ArrayRecord shards or parquet files"):
        open_source(tmp_path, "train")
    with pytest.raises(InputError, match="data must be a folder; found nothing"):
        open_source(tmp_path / "absent", "train")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="data must be a folder; found a file"):
        open_source(tmp_path / "file", "train")


def test_shards_without_an_index(copied: Path) -> None:
    """Without the index nothing is read."""
    (copied / INDEX_NAME).unlink()
    with pytest.raises(InputError, match=r"index\.json: index must be readable"):
        open_source(copied, "train")


@pytest.mark.parametrize("kept", [0, 0.5, 0.9])
def test_a_truncated_shard(copied: Path, kept: float) -> None:
    """A shard that is empty or cut short is named when it is opened."""
    shard = copied / load_index(copied).train.shards[1].file
    whole = shard.read_bytes()
    shard.write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(InputError, match=f"{shard.name}: shard must hold .* truncated"):
        open_source(copied, "train")


def test_something_else_in_place_of_a_shard(copied: Path) -> None:
    """A file that is no ArrayRecord file is named."""
    shard = copied / load_index(copied).train.shards[0].file
    shard.write_bytes(b"something else" * 10_000)
    with pytest.raises(InputError, match=f"{shard.name}: shard must hold"):
        open_source(copied, "train")


def test_a_missing_shard(copied: Path) -> None:
    """A shard that the index names must be there."""
    shard = copied / load_index(copied).train.shards[0].file
    shard.unlink()
    with pytest.raises(InputError, match=f"{shard.name}: shard must hold .*; found no file"):
        open_source(copied, "train")


def test_a_damaged_record(copied: Path) -> None:
    """Damage inside a shard is an error of its record, when that is read."""
    shard = copied / load_index(copied).train.shards[0].file
    damaged = bytearray(shard.read_bytes())
    damaged[100:120] = bytes(20)
    shard.write_bytes(damaged)
    source = open_source(copied, "train")
    with pytest.raises(InputError, match=f"{shard.name}, record 0: record must be"):
        source.read([0])
