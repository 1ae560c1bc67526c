"""Inherited files in the newest layout."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from netpipe.cli import main
from netpipe.errors import InputError
from netpipe.workload.config import PipelineConfig
from netpipe.workload.formats.index import load_index
from netpipe.workload.pipeline import build
from netpipe.workload.preparation.convert import convert
from netpipe.workload.preparation.synthetic import generate
from netpipe.workload.sources.probe_rows import open_source
from tests.workload.factories import make_pings
from tests.workload.layout_v0 import encode_row_v0, write_records
from tests.workload.reference import Ping


@pytest.fixture(scope="module")
def inherited(tmp_path_factory: pytest.TempPathFactory, histories: dict[int, list[Ping]]) -> Path:
    """All probes in two files of layout 0; one probe has two rows."""
    folder = tmp_path_factory.mktemp("inherited")
    records = [encode_row_v0(pings, probe) for probe, pings in histories.items()]
    records.append(encode_row_v0(make_pings(70, seed=99), next(iter(histories))))
    write_records(folder / "a.arrayrecord", records[:5])
    write_records(folder / "b.arrayrecord", records[5:])
    return folder


@pytest.mark.parametrize("packing", [True, False])
@pytest.mark.parametrize("split", ["train", "eval"])
def test_the_same_contexts_are_drawn(
    tmp_path: Path, inherited: Path, split: str, packing: bool
) -> None:
    """The same seed gives the same batches of the inherited files and of the converted ones."""
    convert(inherited, tmp_path / "out")
    config = PipelineConfig(
        seed=4, split=split, sequence_length=128, batch_size=2, packing=packing, workers=0, epochs=3
    )
    old, new = list(build(inherited, config)), list(build(tmp_path / "out", config))
    assert len(old) == len(new) > 2
    for old_batch, new_batch in zip(old, new, strict=True):
        for key, value in old_batch.items():
            np.testing.assert_array_equal(new_batch[key], value)


def test_the_index_counts_the_rows(
    tmp_path: Path, inherited: Path, histories: dict[int, list[Ping]]
) -> None:
    """The index has the counts of the files, and progress ends at its total."""
    reported: list[tuple[int, int]] = []
    index = convert(inherited, tmp_path / "out", progress=lambda *both: reported.append(both[:2]))
    measurements = 70 + sum(map(len, histories.values()))
    assert index == load_index(tmp_path / "out")
    assert index.layout_version == 1
    assert index.train.probes + index.eval.probes == len(histories)
    assert index.train.rows + index.eval.rows == len(histories) + 1
    assert index.train.measurements + index.eval.measurements == measurements
    assert reported[-1] == (measurements, measurements)


def test_long_rows_are_cut(
    tmp_path: Path, inherited: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row above the cap becomes several, and none is above it."""
    monkeypatch.setattr("netpipe.workload.formats.rows.ROW_BYTES", 2048)
    convert(inherited, tmp_path / "out")
    source = open_source(tmp_path / "out", "train")
    rows = source.read(range(len(source.row_measurements)))
    assert len(rows) > len(open_source(inherited, "train").row_measurements)
    assert max(row.array_bytes for row in rows) <= 2048


def test_the_command_converts(tmp_path: Path, inherited: Path) -> None:
    """`netpipe prepare` takes a folder of inherited files."""
    out = tmp_path / "out"
    result = CliRunner().invoke(main, ["prepare", str(inherited), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert load_index(out) == convert(inherited, tmp_path / "other")


def test_parquet_takes_precedence(tmp_path: Path) -> None:
    """In a folder with shards and parquet, the command prepares the parquet."""
    generate(tmp_path / "made", probes=20)
    words = ["prepare", str(tmp_path / "made"), "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert load_index(tmp_path / "out").fingerprint == load_index(tmp_path / "made").fingerprint


def test_another_seed_chooses_other_probes(tmp_path: Path, inherited: Path) -> None:
    """The eval split is chosen as `prepare` does, by the seed."""
    chosen = set()
    for seed in range(6):
        convert(inherited, tmp_path / str(seed), seed=seed)
        (row,) = open_source(tmp_path / str(seed), "eval").read([0])
        chosen.add(row.probe)
    assert len(chosen) > 1


def test_a_damaged_record_leaves_nothing(tmp_path: Path) -> None:
    """The error names the file and the record, and no folder is made."""
    good = [encode_row_v0(make_pings(9, seed=n), n) for n in range(3)]
    wrong = encode_row_v0(make_pings(9, seed=4), 4, measurements=5)
    (tmp_path / "in").mkdir()
    write_records(tmp_path / "in" / "one.arrayrecord", [*good, wrong])
    with pytest.raises(InputError, match=r"arrayrecord, record 3: n_measurements.* 9.* 5"):
        convert(tmp_path / "in", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
