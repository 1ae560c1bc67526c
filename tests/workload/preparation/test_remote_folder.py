"""Sources and outputs on another file system, here fsspec's memory."""

import errno
import os
from pathlib import Path

import fsspec
import pytest
from click.testing import CliRunner

from netpipe.cli import main
from netpipe.errors import InputError
from netpipe.workload.formats.index import INDEX_NAME
from netpipe.workload.formats.places import Place
from netpipe.workload.preparation import phases
from netpipe.workload.preparation.prepare import prepare
from netpipe.workload.preparation.work_folder import WORK_NAME
from tests.workload.factories import make_pings, write_probes

# Work folders are locked between processes, and pytest-xdist may run these tests in several.
BUCKET = f"bucket-{os.getpid()}"
OUT, FOLDER = f"memory://{BUCKET}/out", f"/{BUCKET}/out"


@pytest.fixture
def files(parquet: Path) -> fsspec.AbstractFileSystem:
    """Files in memory; `in` has the measurements."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    for path in parquet.iterdir():
        memory.pipe(f"/{BUCKET}/in/{path.name}", path.read_bytes())
    return memory


def listed(memory: fsspec.AbstractFileSystem) -> dict[str, bytes]:
    """The files of the output, without the list of an upload, which is empty after it."""
    found = {path.removeprefix(f"/{BUCKET}/out/"): memory.cat(path) for path in memory.find(FOLDER)}
    if INDEX_NAME in found:
        assert found.pop(".netpipe-replacing.txt") == b""
    return found


def test_the_bytes_are_those_of_a_local_output(
    files: fsspec.AbstractFileSystem, parquet: Path, tmp_path: Path
) -> None:
    """The files equal those of a local output, and nothing else is left."""
    prepare([parquet], tmp_path / "local")
    expected = {path.name: path.read_bytes() for path in (tmp_path / "local").iterdir()}
    for source in (parquet, f"memory://{BUCKET}/in", f"memory://{BUCKET}/in/measured.parquet"):
        prepare([source], OUT)
        assert listed(files) == expected
        files.rm(f"/{BUCKET}/out", recursive=True)
    prepare([f"memory://{BUCKET}/in"], tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == expected


def test_the_index_is_the_last_file(
    files: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An upload that fails leaves no index, and the next run uploads what is missing."""
    put, count = Place.put, 0

    def put_or_fail(place: Place, file: Path) -> None:
        nonlocal count
        count += not place.is_local
        if count == 3:
            raise OSError("connection lost")
        put(place, file)

    monkeypatch.setattr(Place, "put", put_or_fail)
    monkeypatch.setattr("netpipe.workload.preparation.output_folder._UPLOADED_AT_ONCE", 1)
    with pytest.raises(InputError, match=rf"^{OUT}: .*be writable; found connection lost"):
        prepare([f"memory://{BUCKET}/in"], OUT, shards=3, scratch=tmp_path)
    assert len([name for name in listed(files) if name.endswith(".arrayrecord")]) > 1
    assert INDEX_NAME not in listed(files)
    index = prepare([f"memory://{BUCKET}/in"], OUT, seed=1, shards=3, scratch=tmp_path)
    assert sorted(listed(files)) == sorted([INDEX_NAME, *map(str, index.files)])
    assert list(tmp_path.iterdir()) == []


def test_a_full_work_folder_is_not_the_bucket_s_fault(
    files: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error names the folder that needs space."""

    def is_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(phases, "write_run", is_full)
    with pytest.raises(InputError, match=f"work folder {tmp_path}.*No space left") as caught:
        prepare([f"memory://{BUCKET}/in"], OUT, scratch=tmp_path)
    assert "bucket," not in str(caught.value)
    assert listed(files) == {}


def test_old_files_that_cannot_be_removed(
    files: fsspec.AbstractFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says that the new data set is complete, and the next run removes them."""

    def refuse(_: Place) -> None:
        raise OSError("no such permission")

    prepare([f"memory://{BUCKET}/in"], OUT, shards=5)
    with monkeypatch.context() as patch:
        patch.setattr(Place, "delete", refuse)
        with pytest.raises(InputError, match=r"found no such permission\. The new data set is com"):
            prepare([f"memory://{BUCKET}/in"], OUT, shards=2)
    assert "of-00002" in files.cat(f"{FOLDER}/{INDEX_NAME}").decode()
    index = prepare([f"memory://{BUCKET}/in"], OUT, shards=2)
    assert sorted(listed(files)) == sorted([INDEX_NAME, *map(str, index.files)])


def test_files_of_somebody_else_are_not_touched(files: fsspec.AbstractFileSystem) -> None:
    """A folder with a file that no index lists is refused."""
    files.pipe(f"/{BUCKET}/out/notes.txt", b"mine")
    with pytest.raises(InputError, match=rf"^{OUT}: .*nothing but.*found {OUT}/notes\.txt"):
        prepare([f"memory://{BUCKET}/in"], OUT)
    assert listed(files) == {"notes.txt": b"mine"}


def test_a_folder_without_parquet_files(files: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    """The error names the URI."""
    assert files.find(f"/{BUCKET}/in")
    with pytest.raises(InputError, match=rf"^memory://{BUCKET}/none: source .*found none"):
        prepare([f"memory://{BUCKET}/none"], tmp_path / "out")


def test_names_state_the_split(files: fsspec.AbstractFileSystem, tmp_path: Path) -> None:
    """The names of remote files state a split too."""
    for number, name in enumerate(("train", "eval")):
        write_probes(tmp_path / "made.parquet", {number: make_pings(9, seed=number)})
        files.pipe(f"/{BUCKET}/stated/{name}/0.parquet", (tmp_path / "made.parquet").read_bytes())
    index = prepare([f"memory://{BUCKET}/stated"], tmp_path / "out")
    assert index.train.probes == index.eval.probes == 1
    index = prepare([f"memory://{BUCKET}/stated/train/0.parquet"], tmp_path / "other")
    assert (index.train.probes, index.eval.probes) == (1, 0)


def test_the_command_takes_uris(
    files: fsspec.AbstractFileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary names the output, without a command that could not read it there."""
    monkeypatch.setattr("netpipe.cli.data._IN_MEMORY", ())
    words = ["prepare", f"memory://{BUCKET}/in", "--out", OUT, "--scratch", str(tmp_path)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert f"in {OUT}; copy them" in result.output
    assert INDEX_NAME in listed(files)
    assert not [path for path in tmp_path.iterdir() if WORK_NAME.fullmatch(path.name)]


@pytest.mark.parametrize("out", ["memory://folder/out", "memory:///out", "mock:///out"])
def test_files_that_would_be_lost(parquet: Path, out: str) -> None:
    """The command refuses to prepare data in its own memory."""
    result = CliRunner().invoke(main, ["prepare", str(parquet), "--out", out])
    assert result.exit_code == 2
    assert f"{out}: --out must be a place that stays; found the memory of" in result.output


def test_a_data_set_is_replaced(files: fsspec.AbstractFileSystem, parquet: Path) -> None:
    """The files of the old one are gone, and those of the same name are the new ones."""
    prepare([parquet], OUT, shards=5)
    index = prepare([parquet], OUT, seed=1, shards=2)
    assert sorted(listed(files)) == sorted([INDEX_NAME, *map(str, index.files)])
    before = listed(files)
    prepare([parquet], OUT, seed=1, shards=2)
    assert listed(files) == before


def test_the_summary_names_the_folder_of_a_file_uri(parquet: Path, tmp_path: Path) -> None:
    """`--netpipe-data` takes a path."""
    out = tmp_path / "out"
    result = CliRunner().invoke(main, ["prepare", str(parquet), "--out", f"file://{out}"])
    assert f"in {out}; measure with them: pytest perf_tests --netpipe-data={out}" in result.output
