"""Temporary folders are removed by their owner, or after its death by the next process."""

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from netpipe.files.temporary_folders import (
    OWN_NAME,
    locked,
    release_locks,
    remove_abandoned,
    temporary_folder,
)
from tests.disk import use_temporary_folder

OWNER = """
import sys
from pathlib import Path
from netpipe.files.temporary_folders import temporary_folder

with temporary_folder("test", Path(sys.argv[1])) as folder:
    (folder / "content").write_text("of a process")
    print(folder, flush=True)
    sys.stdin.read()
"""
NAME = ".netpipe-test-abcdefgh.tmp"


@contextmanager
def owner(beside: Path) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """Start a process that owns a folder until its standard input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(beside)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())


def test_a_folder_lives_as_long_as_its_block(tmp_path: Path) -> None:
    """A folder beside the user's files is hidden, private, empty at first and finally removed."""
    with temporary_folder("test", tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]
        assert folder.name.startswith(".netpipe-test-")
        assert OWN_NAME.fullmatch(folder.name)
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "content").mkdir()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_gone_after_an_error(tmp_path: Path) -> None:
    """The error is raised unchanged."""
    with pytest.raises(KeyboardInterrupt), temporary_folder("test", tmp_path):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_the_place_is_that_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `beside` the folder lies in the system's, and is not hidden."""
    use_temporary_folder(monkeypatch, tmp_path)
    with temporary_folder("test") as folder:
        assert folder.parent == tmp_path
        assert folder.name.startswith("netpipe-test-")


def test_the_next_process_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    """The folder of a living process stays."""
    with owner(tmp_path) as (killed, left), owner(tmp_path) as (_, lives):
        killed.kill()
        killed.wait()
        assert left.exists()
        with temporary_folder("test", tmp_path) as folder:
            assert set(tmp_path.iterdir()) == {lives, folder}
        assert (lives / "content").read_text() == "of a process"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "data", "netpipe-kept", "netpipe-session-abcdefgh", "netpipe-test-abcdefghi.tmp",
        "my-netpipe-test-abcdefgh.tmp", "netpipe-test-ABCDEFGH.tmp", "report.html.part",
    ],
)  # fmt: skip
def test_folders_of_others_are_left_alone(name: str, tmp_path: Path) -> None:
    """Folders with other names stay."""
    (tmp_path / name).mkdir()
    with temporary_folder("test", tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_only_folders_of_this_user_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with our name that somebody else owns stays."""
    (tmp_path / NAME).mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    remove_abandoned(tmp_path)
    assert (tmp_path / NAME).exists()
    monkeypatch.undo()
    remove_abandoned(tmp_path)
    assert not (tmp_path / NAME).exists()


def test_a_link_is_neither_followed_nor_removed(tmp_path: Path) -> None:
    """A file with our name stays too."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").touch()
    (tmp_path / NAME).symlink_to("data")
    (tmp_path / NAME.replace("test", "other")).touch()
    remove_abandoned(tmp_path)
    assert (tmp_path / "data" / "file").exists()
    assert len(list(tmp_path.iterdir())) == 3


def test_without_locks_everything_counts_as_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without locks, as on some network file systems, only the owner removes a folder."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(fcntl, "flock", refuse)
    (tmp_path / NAME).mkdir()
    with temporary_folder("test", tmp_path):
        assert len(list(tmp_path.iterdir())) == 2
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_folder_removed_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process takes a new folder for abandoned until its owner has locked it."""
    flock = fcntl.flock

    def late(descriptor: int, flags: int) -> None:
        monkeypatch.undo()
        remove_abandoned(tmp_path)
        assert list(tmp_path.iterdir()) == []
        flock(descriptor, flags)

    monkeypatch.setattr(fcntl, "flock", late)
    with temporary_folder("test", tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]
        remove_abandoned(tmp_path)
        assert folder.exists()


FORKED = """
import os, sys
from pathlib import Path
from netpipe.files.temporary_folders import remove_abandoned, temporary_folder

beside = Path(sys.argv[1])
reading, writing = os.pipe()
with temporary_folder("test", beside) as folder:
    child = os.fork()
    PARENT_AND_CHILD
"""
KILLED_PARENT = """
    if child:
        os.kill(os.getpid(), 9)
    os.close(writing)
    os.read(reading, 1)  # until the parent is dead
    remove_abandoned(beside)
    print(folder.exists(), flush=True)
"""
CHILD_THAT_ENDS_ITS_BLOCK = """
    if not child:
        sys.exit()
    os.waitpid(child, 0)
    remove_abandoned(beside)
    print(folder.exists(), flush=True)
"""


@pytest.mark.parametrize(
    ("rest", "exists"), [(KILLED_PARENT, False), (CHILD_THAT_ENDS_ITS_BLOCK, True)]
)
def test_a_forked_child_is_not_the_owner(rest: str, exists: bool, tmp_path: Path) -> None:
    """A forked child removes nothing, and keeps no lock after its parent's death."""
    source = FORKED.replace("    PARENT_AND_CHILD\n", rest.lstrip("\n"))
    command = [sys.executable, "-c", source, str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{exists}\n", "")
    assert list(tmp_path.iterdir()) == []


def test_released_locks_let_everything_go(tmp_path: Path) -> None:
    """A process that ends at once releases its folders for removal."""
    with temporary_folder("test", tmp_path) as folder:
        release_locks()
        remove_abandoned(tmp_path)
        assert not folder.exists()


def test_a_lock_is_had_by_one(tmp_path: Path) -> None:
    """A second process does not get the lock without waiting."""
    with locked(tmp_path) as mine, locked(tmp_path, waits=False) as theirs:
        assert (mine, theirs) == (True, False)
    with locked(tmp_path, waits=False) as mine:
        assert mine
