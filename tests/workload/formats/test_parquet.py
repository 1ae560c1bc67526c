"""Reading parquet: the values that are accepted, and the errors of others."""

import os
import warnings
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from netpipe.errors import InputError
from netpipe.workload.formats.addresses import AddressTable
from netpipe.workload.formats.parquet import MergedProbesWarning, find_parquet, read_parquet
from netpipe.workload.formats.places import Place
from netpipe.workload.formats.rows import MeasurementArray
from netpipe.workload.formats.rtt import encode_rtt
from netpipe.workload.preparation.plan import _find_files
from tests.workload.factories import SCHEMA, as_table, make_pings


def _write(folder: Path, table: pa.Table) -> Path:
    path = folder / "measured.parquet"
    pq.write_table(table, path)
    return path


def _with(name: str, values: Any, kind: pa.DataType | None = None) -> pa.Table:
    table = as_table(make_pings(3, seed=0))
    return table.set_column(table.schema.names.index(name), name, pa.array(values, kind))


def _read(path: Path) -> MeasurementArray:
    return np.concatenate(list(read_parquet(path, AddressTable())))


def test_values_come_through(tmp_path: Path) -> None:
    """Times, round-trip times and addresses are those of the file, in its order."""
    pings = make_pings(50, seed=1)
    addresses = AddressTable()
    (read,) = read_parquet(_write(tmp_path, as_table(pings, probe=7)), addresses)
    assert read["probe"].tolist() == [7] * 50
    assert read["time_us"].tolist() == [ping.time_us for ping in pings]
    rtt_ms = np.array([ping.rtt_ms for ping in pings])
    np.testing.assert_array_equal(read["rtt_code"], encode_rtt(rtt_ms))
    families = addresses.take(read["destination"])["family"].tolist()
    assert families == [ping.ip_version for ping in pings]


def test_types_that_mean_the_same(tmp_path: Path) -> None:
    """Nanoseconds, zones, large strings, dictionaries and doubles are read alike."""
    plain = as_table(make_pings(20, seed=2))
    columns = {
        "event_time": plain["event_time"].cast(pa.timestamp("ns", "UTC")),
        "src_addr": plain["src_addr"].cast(pa.large_string()),
        "dst_addr": plain["dst_addr"].combine_chunks().dictionary_encode(),
        "ip_version": plain["ip_version"].cast(pa.uint32()),
        "rtt": plain["rtt"].cast(pa.float64()),
        "ignored": pa.nulls(20),
    }
    expected = _read(_write(tmp_path, plain))
    np.testing.assert_array_equal(_read(_write(tmp_path, pa.table(columns))), expected)


def test_nanoseconds_before_1970_round_down(tmp_path: Path) -> None:
    """A nanosecond before 1970 lies in the microsecond before it."""
    times = pa.array([-1, 0, 1], pa.int64()).cast(pa.timestamp("ns"))
    read = _read(_write(tmp_path, _with("event_time", times)))
    assert read["time_us"].tolist() == [-1, 0, 0]


def test_empty_addresses_are_zeros(tmp_path: Path) -> None:
    """An empty address is accepted in both families, as zeros."""
    table = _with("src_addr", ["", "", ""]).set_column(3, "ip_version", pa.array([4, 6, 4]))
    table = table.set_column(2, "dst_addr", pa.array(["192.0.2.1", "2001:db8::1", ""]))
    addresses = AddressTable()
    (read,) = read_parquet(_write(tmp_path, table), addresses)
    sources = addresses.take(read["source"])
    assert sources["family"].tolist() == [4, 6, 4]
    assert not sources["octets"].any()


def test_source_is_the_probe_without_prb_id(tmp_path: Path) -> None:
    """Without prb_id each source is a probe; 4.0.0.0 and 400:: are two."""
    table = _with("src_addr", ["4.0.0.0", "400::", "4.0.0.0"])
    table = table.set_column(3, "ip_version", pa.array([4, 6, 4]))
    table = table.set_column(2, "dst_addr", pa.array(["192.0.2.1", "2001:db8::1", ""]))
    probe = _read(_write(tmp_path, table))["probe"]
    assert probe[0] == probe[2] != probe[1]


def test_private_sources_cause_a_warning(tmp_path: Path) -> None:
    """Private addresses merge probes: one warning for all files, none with prb_id."""
    table = _with("src_addr", ["172.31.255.255"] * 3)
    table = table.set_column(3, "ip_version", pa.array([4] * 3))
    table = table.set_column(2, "dst_addr", pa.array(["192.0.2.1"] * 3))
    with pytest.warns(MergedProbesWarning, match=r"prb_id.*private addresses"):
        _read(_write(tmp_path, table))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        for copy in ("1.parquet", "2.parquet"):
            pq.write_table(table, tmp_path / copy)
            _read(tmp_path / copy)
    assert len(shown) == 1
    with warnings.catch_warnings(action="error"):
        _read(_write(tmp_path, table.append_column("prb_id", pa.array([1, 2, 3]))))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("event_time", ["now", "now", "now"], "event_time.*us or ns.*string"),
        (
            "event_time",
            pa.array([1] * 3, pa.timestamp("s")),
            r"event_time.*us or ns.*\[ms\]",
        ),
        ("src_addr", [1, 2, 3], "src_addr.*found int64"),
        ("ip_version", [4.0, 4.0, 4.0], "ip_version.*found double"),
        (
            "ip_version",
            pa.array([4, 5, 4], pa.int8()),
            "ip_version, row 1,.*found 5",
        ),
        ("rtt", [1, 2, 3], "rtt.*found int64"),
        ("rtt", [1.0, 2.0, float("nan")], "rtt, row 2,.*found nan"),
        ("rtt", [1.0, float("-inf"), 2.0], "rtt, row 1,.*found -inf"),
        ("rtt", [1.0, None, 2.0], "rtt, row 1,.*null.*None"),
        ("dst_addr", ["192.0.2.1", None, ""], "dst_addr, row 1,.*null.*None"),
        ("src_addr", ["256.0.0.1", "", ""], "src_addr, row 0,.*'256.0.0.1'"),
        ("src_addr", ["fe80::1%eth0", "", ""], "src_addr, row 0,.*'fe80::1%eth0'"),
        ("src_addr", ["1.2.3", "", ""], "src_addr, row 0,.*'1.2.3'"),
    ],
)
def test_a_bad_value_is_named(tmp_path: Path, name: str, values: object, message: str) -> None:
    """File, column, row, constraint and value found are in the error."""
    path = _write(tmp_path, _with(name, values))
    with pytest.raises(InputError, match=message) as caught:
        _read(path)
    assert str(caught.value).startswith(str(path))


def test_an_address_of_the_other_family(tmp_path: Path) -> None:
    """An IPv6 address where ip_version says 4 is refused."""
    table = _with("ip_version", [4, 4, 4]).set_column(1, "src_addr", pa.array([""] * 3))
    table = table.set_column(2, "dst_addr", pa.array(["192.0.2.1", "192.0.2.1", "::1"]))
    with pytest.raises(InputError, match=r"dst_addr, row 2,.*'::1'"):
        _read(_write(tmp_path, table))


def test_rows_are_counted_over_batches_and_groups(tmp_path: Path) -> None:
    """The row in an error is that of the file, even in a later row group."""
    path = tmp_path / "groups.parquet"
    pq.write_table(_with("rtt", [1.0, 2.0, float("inf")]), path, row_group_size=1)
    with pytest.raises(InputError, match="row 2,"):
        _read(path)
    with pytest.raises(InputError, match="row 2,"):
        list(read_parquet(path, AddressTable(), [2]))


@pytest.mark.parametrize("name", SCHEMA.names)
def test_a_missing_column_is_named(tmp_path: Path, name: str) -> None:
    """Each column is required, and the error lists what is there."""
    table = as_table(make_pings(3, seed=0)).drop_columns(name)
    with pytest.raises(InputError, match=f"column {name} .*once"):
        _read(_write(tmp_path, table))


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    """Two columns of one name are refused."""
    table = as_table(make_pings(3, seed=0))
    table = table.append_column("rtt", table["rtt"])
    with pytest.raises(InputError, match=r"column rtt .*2 times"):
        _read(_write(tmp_path, table))


def test_no_rows(tmp_path: Path) -> None:
    """A file without measurements is refused."""
    with pytest.raises(InputError, match="found 0 rows"):
        _read(_write(tmp_path, as_table([])))


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:0],
        lambda whole: whole[:10],
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:-20],
        lambda whole: whole[:4] + bytes(396) + whole[400:],
        lambda whole: whole.replace(b"PAR1", b"none"),
    ],
    ids=["empty", "10 bytes", "half", "no end", "a damaged page", "another format"],
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """The error names the file, even if the damage only shows when a page is read."""
    path = _write(tmp_path, as_table(make_pings(1000, seed=0)))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"measured\.parquet: file"):
        _read(path)


def test_finding_files(tmp_path: Path) -> None:
    """A folder gives its files at any depth, sorted; a file gives itself."""
    (tmp_path / "b").mkdir()
    for name in ("b/2.parquet", "1.parquet", "other.txt"):
        (tmp_path / name).touch()
    assert find_parquet(tmp_path) == [tmp_path / "1.parquet", tmp_path / "b/2.parquet"]
    assert find_parquet(tmp_path / "other.txt") == [tmp_path / "other.txt"]


def test_nothing_to_find(tmp_path: Path) -> None:
    """A source that is not there and a folder without parquet are refused."""
    with pytest.raises(InputError, match=r"absent: .*nothing there"):
        find_parquet(tmp_path / "absent")
    with pytest.raises(InputError, match=r"\*\.parquet.*found none"):
        find_parquet(tmp_path)


def test_naive_time_is_utc(tmp_path: Path) -> None:
    """A time without a zone is UTC."""
    path = _write(tmp_path, _with("event_time", [datetime(1970, 1, 2)] * 3, pa.timestamp("us")))
    assert _read(path)["time_us"].tolist() == [86_400_000_000] * 3


def test_a_file_is_found_once(tmp_path: Path) -> None:
    """A file named again, through another path, a folder or a link, is still one file."""
    path, folder = tmp_path / "data" / "1.parquet", tmp_path / "data"
    (folder / "deep.parquet").mkdir(parents=True)
    path.touch()
    (folder / "2.parquet").symlink_to(path)
    (folder / "3.parquet").hardlink_to(path)
    (tmp_path / "link").symlink_to(folder)
    sources = [path, folder / "deep.parquet" / ".." / "1.parquet", folder, tmp_path / "link"]
    assert list(map(str, _find_files(list(map(Place.local, sources))))) == [str(path)]


def test_only_files_are_found(tmp_path: Path) -> None:
    """A pipe, which would block, and a broken link are refused."""
    os.mkfifo(tmp_path / "1.parquet")
    with pytest.raises(InputError, match=r"1\.parquet: file must be a regular file; found p"):
        find_parquet(tmp_path)
    (tmp_path / "1.parquet").unlink()
    (tmp_path / "1.parquet").symlink_to("1.parquet")
    with pytest.raises(InputError, match=r"1\.parquet: file must be readable; found Too many"):
        find_parquet(tmp_path)
