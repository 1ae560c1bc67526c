"""Output folders appear complete or not at all, and other files in them stay."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from stat import S_ISDIR
from typing import Any

import pytest

from netpipe.errors import InputError
from netpipe.workload.formats.index import INDEX_NAME, Index, Shard, Split, load_index, save_index
from netpipe.workload.preparation import output_folder
from netpipe.workload.preparation.output_folder import whole_folder


def save_data(folder: Path, name: str) -> None:
    """Make a data set of three files and their index; each contains the name."""
    shards = [f"{split}-{name}.arrayrecord" for split in ("train", "eval")]
    train, evaluation = (Split(1, (Shard(shard, (1,)),)) for shard in shards)
    (folder / "parquet").mkdir()
    for file in (*shards, f"parquet/{name}.parquet"):
        (folder / file).write_text(name)
    save_index(Index(1, 0, 0.5, 1024, "ab" * 16, train, evaluation, (f"{name}.parquet",)), folder)


def write(out: Path, name: str) -> None:
    """Write a data set to the output folder."""
    with whole_folder(out) as folder:
        save_data(folder, name)


def files(folder: Path) -> list[str]:
    """All files in a folder except the index."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != INDEX_NAME)
    return sorted(str(path.relative_to(folder)) for path in found)


def files_of(name: str) -> list[str]:
    """The files of a data set."""
    return [f"eval-{name}.arrayrecord", f"parquet/{name}.parquet", f"train-{name}.arrayrecord"]


def is_whole(folder: Path) -> bool:
    """Whether all files that the index lists are there."""
    return all((folder / file).exists() for file in load_index(folder).files)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A prepared folder."""
    write(tmp_path / "out", "old")
    return tmp_path / "out"


def _save_data_beside(folder: Path, other: Path) -> None:
    save_data(folder, "new")
    other.touch()


def _fail(folder: Path, error: Exception) -> None:
    (folder / "half").touch()
    raise error


def test_a_new_folder_appears_at_the_end(tmp_path: Path) -> None:
    """Parents are made, and the folder does not exist before the block ends."""
    out = tmp_path / "deep" / "out"
    with whole_folder(out) as folder:
        save_data(folder, "new")
        assert not out.exists()
    assert files(out) == files_of("new")
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o755), (0o027, 0o750), (0o002, 0o775)])
def test_a_new_folder_has_the_usual_mode(tmp_path: Path, umask: int, mode: int) -> None:
    """The umask decides who may read it."""
    before = os.umask(umask)
    try:
        write(tmp_path / "out", "new")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == mode


def test_what_a_killed_first_run_left_beside_its_output(ours: Path) -> None:
    """The temporary folder beside the output is removed, though the next one lies in it."""
    (ours.parent / ".netpipe-output-abcd1234.tmp").mkdir()
    write(ours, "new")
    assert list(ours.parent.iterdir()) == [ours]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    """An empty folder, which may be a mount point, stays the folder that it is."""
    (tmp_path / "out").mkdir(0o750)
    (tmp_path / "out" / "lost+found").mkdir()
    before = (tmp_path / "out").stat()
    write(tmp_path / "out", "new")
    after = (tmp_path / "out").stat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert files(tmp_path / "out") == files_of("new")


def test_ours_is_replaced_only_when_whole(ours: Path) -> None:
    """A prepared folder survives a failure, and a success replaces it as a whole."""
    with pytest.raises(KeyError), whole_folder(ours) as folder:
        _fail(folder, KeyError())
    assert files(ours) == files_of("old")
    write(ours, "new")
    assert files(ours) == files_of("new")
    assert {(ours / file).read_text() for file in files(ours)} == {"new"}
    assert list(ours.parent.iterdir()) == [ours]


@pytest.mark.parametrize("name", ["train-a.arrayrecord", "parquet/my.parquet", "a/b", ".hidden"])
def test_files_that_are_not_ours_are_not_touched(ours: Path, name: str) -> None:
    """A folder with a file that the index does not list is refused before any work."""
    (ours / name).parent.mkdir(exist_ok=True)
    (ours / name).write_text("of the user")
    with pytest.raises(InputError, match=rf"hold nothing but.*found {name.split('/')[0]}"):
        whole_folder(ours).__enter__()
    assert (ours / name).read_text() == "of the user"
    assert files(ours) == sorted([*files_of("old"), name])


def test_a_file_that_came_meanwhile_is_not_touched(ours: Path) -> None:
    """A file that was put into the folder during the work is refused after it."""
    with pytest.raises(InputError, match="notes"), whole_folder(ours) as folder:
        _save_data_beside(folder, ours / "notes")
    assert files(ours) == sorted([*files_of("old"), "notes"])


@pytest.mark.parametrize("content", ["", "{", '{"schema": "other/1"}', '{"schema": "netpipe.'])
def test_a_damaged_index_is_refused(tmp_path: Path, content: str) -> None:
    """A damaged index does not tell which files are ours, so the folder stays as it is."""
    (tmp_path / INDEX_NAME).write_text(content)
    with pytest.raises(InputError, match=r"whole index.*Choose"):
        whole_folder(tmp_path).__enter__()
    assert (tmp_path / INDEX_NAME).read_text() == content


@pytest.mark.parametrize("name", ["../a", r"\ud800", r"a\n../a"])
def test_an_index_removes_nothing_outside_its_folder(ours: Path, name: str) -> None:
    """An index that lists a file elsewhere, or an impossible name, is damaged."""
    theirs = ours.parent / "a.arrayrecord"
    theirs.touch()
    index = ours / INDEX_NAME
    index.write_text(index.read_text().replace("train-old", name))
    with pytest.raises(InputError, match="whole index"):
        write(ours, "new")
    assert theirs.exists()


def test_what_is_read_is_not_replaced(tmp_path: Path) -> None:
    """Sources inside the output folder are refused, since replacing it would remove them."""
    with pytest.raises(InputError, match=r"not contain the sources.*0\.parquet"):
        whole_folder(tmp_path, [tmp_path / "parquet" / "0.parquet"]).__enter__()


def test_a_place_that_cannot_be_a_folder(tmp_path: Path) -> None:
    """A file, a link to itself, a place in a file, and a name that is too long are refused."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("link")
    for name in ("file", "link"):
        with pytest.raises(InputError, match="found a file"):
            whole_folder(tmp_path / name).__enter__()
    for name in ("file/out", "a" * 300):
        with pytest.raises(InputError, match=f"{tmp_path}/{name}: .*writable"):
            whole_folder(tmp_path / name).__enter__()


def test_a_failed_write_is_an_input_error(tmp_path: Path) -> None:
    """An operating system error inside the block names the output folder; nothing is left."""
    out = tmp_path / "deep" / "out"
    match = f"{out}: .*writable.*disk full"
    with pytest.raises(InputError, match=match), whole_folder(out) as folder:
        _fail(folder, OSError("disk full"))
    assert not list(tmp_path.iterdir())


def _stop_at(monkeypatch: pytest.MonkeyPatch, number: int, stop: Any) -> None:
    """Let the move of this number stop the replacement."""
    replace, moves = Path.replace, iter(range(100))

    def stop_once(path: Path, target: Path) -> Path:
        if next(moves) == number:
            stop()
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", stop_once)


@pytest.mark.parametrize("failing", range(5))
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_failed_move_loses_nothing(
    ours: Path, monkeypatch: pytest.MonkeyPatch, failing: int, error: BaseException
) -> None:
    """Whichever move fails, the old data set is there, and nothing else."""

    def fail() -> None:
        raise error

    _stop_at(monkeypatch, failing, fail)
    with pytest.raises((InputError, KeyboardInterrupt)):
        write(ours, "new")
    assert files(ours) == files_of("old")
    assert is_whole(ours)


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.workload.preparation.test_output_folder import write

replace, moves = Path.replace, iter(range(int(sys.argv[2])))

def replace_or_die(path, target):
    next(moves, None) is None and os.kill(os.getpid(), signal.SIGKILL)
    return replace(path, target)

def unlink_and_die(path, **_):
    os.unlink(path)
    os.kill(os.getpid(), signal.SIGKILL)

Path.replace, Path.unlink = replace_or_die, unlink_and_die
write(Path(sys.argv[1]), "new")
"""


@pytest.mark.parametrize("moves", range(6))
def test_a_kill_loses_nothing(ours: Path, moves: int) -> None:
    """After each move, and while the old files go, one data set is whole; the next run cleans up.

    Moved are the list of files, the three files of the data set, and its index.
    """
    command = [sys.executable, "-c", KILLED, str(ours), str(moves)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    name = "new" if moves == 5 else "old"
    assert is_whole(ours)
    assert load_index(ours).parquet == (f"{name}.parquet",)
    assert len(files(ours)) > 3
    with pytest.raises(KeyError), whole_folder(ours):
        raise KeyError
    assert files(ours) == files_of(name)


def test_a_list_of_files_removes_nothing_else(ours: Path) -> None:
    """Files outside the data set stay, even if a damaged list names them."""
    listed = ours / output_folder._REPLACING
    listed.write_text("../a.arrayrecord\n..\n/etc/passwd\nparquet/../../a.arrayrecord\n\0\n")
    (ours.parent / "a.arrayrecord").touch()
    write(ours, "new")
    assert files(ours) == files_of("new")
    assert (ours.parent / "a.arrayrecord").exists()


@pytest.mark.parametrize("is_new", [True, False])
def test_of_two_at_once_the_last_remains(tmp_path: Path, is_new: bool) -> None:
    """Both begin before either ends; each data set is whole while it is there."""
    out = tmp_path / "out"
    if not is_new:
        write(out, "old")
    with whole_folder(out) as last:
        write(out, "first")
        assert [path for path in files(out) if last.name not in path] == files_of("first")
        save_data(last, "last")
    assert files(out) == files_of("last")
    assert list(tmp_path.iterdir()) == [out]


def test_what_the_index_promises_is_on_the_disk(
    ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file, and its place in its folder, is flushed before the index is replaced."""
    flushed: list[int] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        flushed.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    _stop_at(monkeypatch, 4, lambda: flushed.append(0))
    write(ours, "new")
    before, after = flushed[: flushed.index(0)], flushed[flushed.index(0) + 1 :]
    paths = [*files(ours), INDEX_NAME, ".", "parquet"]
    assert {(ours / path).stat().st_ino for path in paths} <= set(before)
    assert ours.stat().st_ino in after


def test_a_folder_that_cannot_be_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system may refuse to flush folders, but not files."""

    def refuse(descriptor: int) -> None:
        if S_ISDIR(os.fstat(descriptor).st_mode) or is_full:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "fsync", refuse)
    is_full = False
    write(tmp_path / "out", "new")
    is_full = True
    with pytest.raises(InputError, match="Disk quota"):
        write(tmp_path / "other", "new")
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]
