"""`netpipe inspect`."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from netpipe.cli import main
from netpipe.errors import InputError
from netpipe.workload.formats.index import load_index
from netpipe.workload.inspection import inspect
from tests.workload.factories import as_table, make_pings
from tests.workload.layout_v0 import encode_row_v0, write_records
from tests.workload.reference import Ping


def test_a_prepared_folder(prepared: Path, histories: dict[int, list[Ping]]) -> None:
    """Counts are those of the index and of the measurements that it was made of."""
    found, index = inspect(prepared), load_index(prepared)
    everything = [ping for pings in histories.values() for ping in pings]
    assert found["format"] == "arrayrecord"
    assert found["measurements"] == len(everything) == found["read"]["measurements"]
    assert found["rows"] == len(histories) == found["read"]["rows"]
    assert {name: split["probes"] for name, split in found["splits"].items()} == {
        "train": index.train.probes, "eval": index.eval.probes,
    }  # fmt: skip
    failed = np.mean([ping.rtt_ms < 0 for ping in everything])
    assert found["read"]["failed_fraction"] == pytest.approx(failed)
    assert found["example"]["probe"] in histories
    shown = found["example"]["shown"][0]
    assert shown["destination"] in {
        ping.destination for ping in histories[found["example"]["probe"]]
    }


def test_files_and_folders_of_every_format(
    prepared: Path, parquet: Path, tmp_path: Path, histories: dict[int, list[Ping]]
) -> None:
    """A file alone, parquet, and inherited files are described too."""
    measurements = sum(map(len, histories.values()))
    inherited = tmp_path / "old.arrayrecord"
    write_records(inherited, [encode_row_v0(pings, probe) for probe, pings in histories.items()])
    for path in (parquet, next(parquet.iterdir()), inherited, tmp_path):
        assert inspect(path)["measurements"] == measurements
    shard = next(prepared.glob("train-*"))
    assert 0 < inspect(shard)["measurements"] < measurements


def test_times_beyond_the_calendar_are_shown(tmp_path: Path) -> None:
    """Nanoseconds that are labelled as microseconds end up after the year 9999."""
    table = as_table(make_pings(9, seed=0), 1)
    place = table.schema.get_field_index("event_time")
    late = pa.array([1_700_000_000_000_000_000] * 9, table.schema.field(place).type)
    pq.write_table(table.set_column(place, "event_time", late), tmp_path / "0.parquet")
    assert inspect(tmp_path)["read"]["first"].startswith("55840-")


def test_a_row_group_may_be_empty(tmp_path: Path) -> None:
    """The example comes from the first row group with measurements."""
    table = as_table(make_pings(3, seed=0), probe=7)
    with pq.ParquetWriter(tmp_path / "measured.parquet", table.schema) as file:
        file.write_table(table[:0])
        file.write_table(table)
    found = inspect(tmp_path)
    assert (found["measurements"], found["example"]["probe"]) == (3, 7)


@pytest.mark.parametrize(
    ("name", "message"),
    [("nothing", "found nothing"), ("text.txt", "found text.txt"), ("x.arrayrecord", "be a whole")],
)
def test_what_holds_no_data_is_refused(tmp_path: Path, name: str, message: str) -> None:
    """The error names the files that are accepted."""
    if "." in name:
        (tmp_path / name).write_bytes(b"text")
    with pytest.raises(InputError, match=message):
        inspect(tmp_path / name)


def test_the_command_prints_both_forms(prepared: Path) -> None:
    """Lines for people, or the document."""
    text = CliRunner().invoke(main, ["inspect", str(prepared)], catch_exceptions=False)
    assert text.exit_code == 0
    assert "a row, probe" in text.output
    as_json = CliRunner().invoke(main, ["inspect", str(prepared), "--json"], catch_exceptions=False)
    assert json.loads(as_json.output) == inspect(prepared)
