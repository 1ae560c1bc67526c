"""Files of data: the index, its shards, records, and parquet files of measurements."""

import json
import shutil
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from array_record.python.array_record_module import ArrayRecordWriter
from hypothesis import example, given, settings
from hypothesis import strategies as st

from netpipe.errors import InputError
from netpipe.workload.formats.addresses import AddressTable
from netpipe.workload.formats.index import INDEX_NAME, load_index, save_index
from netpipe.workload.formats.layout import decode_row, encode_row
from netpipe.workload.formats.parquet import read_parquet
from netpipe.workload.formats.rows import ProbeRow, take
from netpipe.workload.formats.shards import ShardReader, count_records
from netpipe.workload.preparation.prepare import prepare
from netpipe.workload.sources.probe_rows import open_source
from tests.fuzz.mutations import check_message, damaged, mutated_json, read_or_refuse
from tests.workload.factories import as_row, as_table, make_pings, write_probes

ROW = encode_row(as_row(make_pings(40, seed=1)))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared folder of a few rows."""
    folder = tmp_path_factory.mktemp("data")
    histories = {number: make_pings(30, seed=number) for number in range(4)}
    write_probes(folder / "measured.parquet", histories)
    prepare([folder / "measured.parquet"], folder / "out", shards=1, eval_fraction=0.3)
    return folder / "out"


def check_row(row: ProbeRow) -> None:
    """Check that a row has measurements and that all of them can be read."""
    taken = take([row], [np.arange(len(row))])
    assert len(taken) == len(row) >= 1
    assert 0 <= row.ipv4_pairs <= len(row.pair_source)


@given(data=st.data())
def test_an_index_is_refused_or_sane(tmp_path: Path, prepared: Path, data: st.DataObject) -> None:
    """An index that is read has positive counts and can be saved, whatever its values."""
    whole = (prepared / INDEX_NAME).read_bytes()
    document = json.loads(whole)
    content = st.one_of(mutated_json(document).map(str.encode), damaged(whole))
    path = tmp_path / INDEX_NAME
    path.write_bytes(data.draw(content))
    if index := read_or_refuse(lambda _: load_index(tmp_path), path):
        for split in (index.train, index.eval):
            assert (split.row_measurements > 0).all()
            assert split.measurements >= split.rows >= split.probes
        save_index(index, tmp_path)
        assert load_index(tmp_path) == index


@settings(max_examples=settings().max_examples // 4)
@given(data=st.data())
def test_a_shard_is_refused_or_sane(tmp_path: Path, prepared: Path, data: st.DataObject) -> None:
    """Damaged bytes of a shard give no row that was not written."""
    folder = shutil.copytree(prepared, tmp_path / "out", dirs_exist_ok=True)
    (path,) = folder.glob("train-*.arrayrecord")
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    try:
        source = open_source(folder, "train")
        rows = source.read(range(len(source.row_measurements)))
    except InputError as error:
        check_message(str(error), path)
        return
    whole = open_source(prepared, "train")
    for row, written in zip(rows, whole.read(range(len(rows))), strict=True):
        assert encode_row(row) == encode_row(written)


@example(ROW[:24] + bytes(16))  # no measurement
@example(ROW[:32] + b"\xff\xff\0\0" + ROW[36:])  # more pairs of IPv4 than pairs
@given(content=damaged(ROW))
def test_a_record_is_refused_or_sane(content: bytes) -> None:
    """No record is decoded to a row from which measurements cannot be taken."""
    try:
        row = decode_row(content, "shard, record 0")
    except InputError as error:
        check_message(str(error), Path("shard, record 0"))
    else:
        check_row(row)


@settings(max_examples=settings().max_examples // 4)
@given(records=st.lists(st.sampled_from([ROW, b"", b"NPRW", ROW[:-1], b"\xff" * 40]), max_size=4))
def test_odd_records_of_a_shard_are_refused(tmp_path: Path, records: list[bytes]) -> None:
    """Odd records in an intact shard are refused."""
    path = tmp_path / "records.arrayrecord"
    writer = ArrayRecordWriter(str(path), "group_size:1,uncompressed")
    for record in records:
        writer.write(record)
    writer.close()
    assert count_records(path) == len(records)
    reader = ShardReader([path], [len(records)])
    for record, where in reader.read(range(len(records))):
        try:
            check_row(decode_row(record, where))
        except InputError as error:
            check_message(str(error), path)
            assert record != ROW


def parquet_bytes() -> bytes:
    """A small file of measurements."""
    stream = BytesIO()
    pq.write_table(as_table(make_pings(50, seed=3), probe=7), stream, compression="none")
    return stream.getvalue()


PARQUET = parquet_bytes()


def read_all(path: Path) -> int:
    """Read a parquet file of measurements, and return their number."""
    return sum(map(len, read_parquet(path, AddressTable())))


@example(content=PARQUET[:309] + b"\x01" + PARQUET[310:])  # the header of a page
@given(content=damaged(PARQUET))
def test_damaged_parquet_is_refused_or_read(tmp_path: Path, content: bytes) -> None:
    """Damaged bytes give no traceback."""
    path = tmp_path / "measured.parquet"
    path.write_bytes(content)
    count = read_or_refuse(read_all, path)
    assert count is None or count >= 1


_COLUMNS = {
    "event_time": [pa.array([0], kind) for kind in (
        pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("s"), pa.int64(), pa.date64(),
        pa.timestamp("us", "UTC"), pa.timestamp("ns", "Europe/Amsterdam"),
    )] + [pa.array([value], pa.timestamp("us")) for value in (None, -(2**63), 2**63 - 1, -1)],
    "src_addr": [pa.array([value]) for value in (
        "192.0.2.1", "::1", "", "x", "192.0.2.1\0", "1" * 100_000, "\u0660", None, b"192.0.2.1", 1,
    )],
    "ip_version": [pa.array([value]) for value in (4, 6, 0, -1, 2**62, None, 4.0, "4", True)],
    "rtt": [pa.array([value], pa.float32()) for value in (
        1.0, -1.0, 0.0, 1e-45, 3e38, float("nan"), float("inf"), None,
    )] + [pa.array([1e308]), pa.array([1]), pa.array([1.0], pa.float16()), pa.array(["1"])],
    "prb_id": [pa.array([value]) for value in (1, -1, 2**63 - 1, None, 1.5, "1")] + [
        pa.array([2**64 - 1], pa.uint64())
    ],
}  # fmt: skip
_COLUMNS["dst_addr"] = _COLUMNS["src_addr"]


@given(
    columns=st.fixed_dictionaries({name: st.sampled_from(each) for name, each in _COLUMNS.items()}),
    left_out=st.sampled_from(("", *_COLUMNS)),
    repeated=st.sampled_from(("", "", *_COLUMNS)),
)
def test_odd_columns_are_refused_or_read(
    tmp_path: Path, columns: dict[str, pa.Array], left_out: str, repeated: str
) -> None:
    """Each column is read or refused, whatever the others hold."""
    names = [name for name in columns if name != left_out]
    names += [repeated] if repeated else []
    table = pa.Table.from_arrays([columns[name] for name in names], names)
    path = tmp_path / "measured.parquet"
    pq.write_table(table, path)
    count = read_or_refuse(read_all, path)
    assert count in (None, 1)
