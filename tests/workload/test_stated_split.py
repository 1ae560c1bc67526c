"""Data whose files state their split: evaluation probes are never trained on."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from netpipe.cli import main
from netpipe.errors import InputError
from netpipe.workload.config import PipelineConfig
from netpipe.workload.formats.index import INDEX_NAME, load_index
from netpipe.workload.pipeline import build
from netpipe.workload.sources.probe_rows import open_source
from tests.workload.factories import make_pings, write_probes
from tests.workload.layout_v0 import encode_row_v0, write_records

Write = Callable[[Path, Sequence[int]], None]

TRAIN_WORDS = ("train", "training", "Train", "TRAIN")
EVAL_WORDS = ("eval", "evaluation", "val", "validation", "Eval")
# Words that count only at the beginning of a name, and before nothing but a number.
EVAL_NAMES = ("test", "testing", "valid", "Test")
# How a path states its split; "{}" is the word, "#" the number of the file.
NAME_PATTERNS = (
    "{}-#", "{}", "{}-0000#-of-00009-a09b74", "{}_2024_#", "{}#", "{}/#", "{}_2024/#", "{}/2024/#",
    "split={}/#", "2024/{}/part-#", "{}/{}-#", "speed_test/{}/#", "speed_test/{}-#",
)  # fmt: skip
PATTERNS = (*NAME_PATTERNS, "latency_{}.#", "#.{}", "speed_test_{}_#")


def write_parquet(path: Path, probes: Sequence[int]) -> None:
    """Write a parquet file in which each of some probes has a few measurements."""
    path.parent.mkdir(parents=True, exist_ok=True)
    histories = {probe: make_pings(3 + probe % 5, seed=probe) for probe in probes}
    write_probes(path.with_name(path.name + ".parquet"), histories)


def write_array_record(path: Path, probes: Sequence[int]) -> None:
    """Write an ArrayRecord file of layout 0 in which each of some probes has a row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [encode_row_v0(make_pings(3 + probe % 5, seed=probe), probe) for probe in probes]
    write_records(path.with_name(path.name + ".arrayrecord"), rows)


WRITERS: tuple[Write, ...] = (write_parquet, write_array_record)
both_formats = pytest.mark.parametrize("write", WRITERS, ids=["parquet", "layout 0"])


def probes_of(data: Path, split: str) -> set[int]:
    """Return the probes of all rows of a split."""
    source = open_source(data, split)
    return {row.probe for row in source.read(range(len(source.row_measurements)))}


def prepare(out: Path, *sources: object) -> str:
    """Run `netpipe prepare`; return its error, or nothing."""
    result = CliRunner().invoke(main, ["prepare", *map(str, sources), "--out", str(out)])
    return "" if result.exit_code == 0 else result.output


def places_of(write: Write, data: Path, out: Path) -> list[Path]:
    """Return where a data set can be read: as it is, and, if it is parquet, prepared."""
    if write is not write_parquet:
        return [data]
    assert prepare(out, data) == ""
    return [data, out]


@st.composite
def file_sets(draw: st.DrawFn) -> dict[str, tuple[str, list[int]]]:
    """Draw files by their paths: the split that each states, and its probes."""
    probes = draw(st.lists(st.integers(0, 10**6), min_size=2, max_size=12, unique=True))
    train = draw(st.integers(1, len(probes) - 1))
    files: dict[str, tuple[str, list[int]]] = {}
    anywhere, as_name = st.sampled_from(PATTERNS), st.sampled_from(NAME_PATTERNS)
    evaluating = st.tuples(anywhere, st.sampled_from(EVAL_WORDS))
    for split, forms, some in (
        ("train", st.tuples(anywhere, st.sampled_from(TRAIN_WORDS)), probes[:train]),
        ("eval", evaluating | st.tuples(as_name, st.sampled_from(EVAL_NAMES)), probes[train:]),
    ):
        parts = [some[: len(some) // 2], some[len(some) // 2 :]]
        pattern, word = draw(forms)
        for number, part in enumerate(filter(None, parts)):
            name = pattern.replace("{}", word).replace("#", str(number))
            before = files.get(name, (split, []))[1]
            files[name] = (split, before + part)
    return files


@both_formats
@given(files=file_sets())
@settings(max_examples=20)
def test_an_evaluation_probe_is_never_trained_on(
    write: Write, files: dict[str, tuple[str, list[int]]]
) -> None:
    """Read as they are or prepared, the files' probes are in the split that the files state."""
    with TemporaryDirectory(prefix="data") as folder:
        data, out = Path(folder, "data"), Path(folder, "out")
        at_top = all("/" not in name for name in files)
        for name, (_, probes) in files.items():
            # ArrayRecord files in folders are read only if there are none at the top.
            write(data / (name if at_top or "/" in name else f"top/{name}"), probes)
        for place in places_of(write, data, out):
            for split in ("train", "eval"):
                stated = [probes for side, probes in files.values() if side == split]
                assert probes_of(place, split) == set().union(*stated)


@both_formats
def test_batches_are_made_of_the_stated_split(tmp_path: Path, write: Write) -> None:
    """Training on a folder with an eval file gives the batches of its train file alone."""
    write(tmp_path / "both" / "train", range(40))
    write(tmp_path / "both" / "eval", range(40, 80))
    write(tmp_path / "alone" / "train", range(40))
    config = PipelineConfig(sequence_length=128, batch_size=2, workers=0, epochs=1)
    both, alone = (
        [batch["inputs"].tolist() for batch in build(tmp_path / folder, config)]
        for folder in ("both", "alone")
    )
    assert both == alone != []


@both_formats
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["eval/train-0", "train/train-0"], r"eval/train-0\.\w+: path.*one split"),
        (["train_eval", "train"], r"train_eval\.\w+: path.*one split"),
        (["train", "more"], r"more\.\w+: path.*train\.\w+"),
        (["eval/0", "other/0"], r"other/0\.\w+: path.*eval/0\.\w+"),
        (
            ["speed_test", "train"],
            r"speed_test\.\w+: path.*train\.\w+",
        ),
        (["train/0", "ping-test/0"], r"ping-test/0\.\w+: path.*train/0"),
        (["test/train-0", "train/1"], r"test/train-0\.\w+: path.*one split"),
    ],
)
def test_contradictory_names_are_refused(
    tmp_path: Path, write: Write, names: list[str], message: str
) -> None:
    """Both splits in one path, or a split in some paths only, is an error that names the file."""
    for number, name in enumerate(names):
        write(tmp_path / "data" / name, [2 * number, 2 * number + 1])
    for split in ("train", "eval"):
        with pytest.raises(InputError, match=message):
            open_source(tmp_path / "data", split)
    if write is write_parquet:
        assert "path must state" in prepare(tmp_path / "out", tmp_path / "data")
        assert not (tmp_path / "out").exists()


@both_formats
def test_a_probe_of_both_splits_is_refused(tmp_path: Path, write: Write) -> None:
    """A probe in a train file and in an eval file would be trained on: the error names it."""
    write(tmp_path / "data" / "train", [1, 2, 3])
    write(tmp_path / "data" / "eval", [3, 4])
    message = r"train\.\w+: probe 3 .*eval\.\w+"
    for split in ("train", "eval"):
        with pytest.raises(InputError, match=message):
            open_source(tmp_path / "data", split)
    if write is write_parquet:
        assert re.search(message, prepare(tmp_path / "out", tmp_path / "data"))


@both_formats
@pytest.mark.parametrize(
    ("name", "there", "absent"),
    [("train", "train", "eval"), ("test/0", "eval", "train"), ("../eval/0", "eval", "train")],
)
def test_a_split_that_no_file_states_is_empty(
    tmp_path: Path, write: Write, name: str, there: str, absent: str
) -> None:
    """Files of one split are not split again: opening the other one is an error."""
    write(tmp_path / "data" / name, [1, 2, 3])
    data = tmp_path / "eval" if ".." in name else tmp_path / "data"
    for place in places_of(write, data, tmp_path / "out"):
        assert probes_of(place, there) == {1, 2, 3}
        with pytest.raises(InputError, match=f"split {absent}.*found none"):
            open_source(place, absent)


@both_formats
def test_a_word_within_a_word_states_nothing(tmp_path: Path, write: Write) -> None:
    """Names of words that merely contain one leave the split to the probe, as does `speed_test`."""
    names = (
        "interval", "trainset", "trains/0", "latest", "tested/0", "speed_test", "test_results_1",
        "latency-test/0", "2024-test", "valid_rows", "testing-modem-3", "test-of-Lille/0",
    )  # fmt: skip
    data = tmp_path / "test_of_names0"
    for number, name in enumerate(names):
        write(data / f"x/{name}", range(10 * number, 10 * number + 10))
    assert probes_of(data, "train") | probes_of(data, "eval") == set(range(10 * len(names)))
    assert not probes_of(data, "train") & probes_of(data, "eval")


def test_named_files_state_by_their_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`netpipe prepare train/*.parquet eval/*.parquet`, and two folders, are read as one folder."""
    write_parquet(tmp_path / "train" / "2024" / "0", [1, 2])
    write_parquet(tmp_path / "eval" / "2024" / "0", [3, 4])
    monkeypatch.chdir(tmp_path)
    files = [f"{name}/2024/0.parquet" for name in ("train", "eval")]
    for number, sources in enumerate(
        [files, ["train", "eval"], ["train/2024", "eval/2024"], ["."]]
    ):
        out = tmp_path.parent / f"{tmp_path.name}-{number}"
        assert prepare(out, *sources) == ""
        assert [probes_of(out, split) for split in ("train", "eval")] == [{1, 2}, {3, 4}]


def test_folders_above_the_data_state_nothing(tmp_path: Path) -> None:
    """A home or a project that is called `test` says nothing about the data in it."""
    write_parquet(tmp_path / "test" / "data" / "0", range(40))
    assert probes_of(tmp_path / "test" / "data", "train")
    (tmp_path / "linked").symlink_to(tmp_path / "test" / "data")
    assert probes_of(tmp_path / "linked", "train")
    sources = [tmp_path / "test" / name for name in ("train", "eval")]
    for number, source in enumerate(sources):
        write_parquet(source / "0", [number])
    assert prepare(tmp_path / "out", *sources) == ""
    assert [probes_of(tmp_path / "out", split) for split in ("train", "eval")] == [{0}, {1}]


def test_an_index_that_contradicts_its_files_is_refused(tmp_path: Path) -> None:
    """A prepared folder whose index calls an eval file a train file is not trained on."""
    write_parquet(tmp_path / "data" / "0", range(40))
    assert prepare(tmp_path / "out", tmp_path / "data") == ""
    index = json.loads((tmp_path / "out" / INDEX_NAME).read_text())
    index["train"], index["eval"] = index["eval"], index["train"]
    (tmp_path / "out" / INDEX_NAME).write_text(json.dumps(index))
    assert load_index(tmp_path / "out").train.shards
    with pytest.raises(InputError, match=r"eval-0\S+: shard.*train"):
        open_source(tmp_path / "out", "train")
