"""Numbered files: complete or absent, with concurrent writers and full disks."""

import subprocess
import sys
from pathlib import Path

import pytest

from netpipe.gate.numbered_files import read_number, write_numbered, write_to_temporary
from tests.disk import fill, make_read_only, note_syncs, use_temporary_folder

_EACH = 40
_RECORDER = f"""
import sys
from pathlib import Path
from netpipe.gate.numbered_files import write_numbered

folder, name = Path(sys.argv[1]), sys.argv[2]
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
for turn in range({_EACH}):
    write_numbered(folder, name, f"{{name}} {{turn}}")
"""

# The limit applies both in the folder and among the temporary files.
_TOO_LARGE = """
import resource, sys
from pathlib import Path
from netpipe.gate.numbered_files import write_to_temporary, write_numbered

resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for write in (write_numbered, write_to_temporary):
    try:
        write(Path(sys.argv[1]), "late", "x" * 100_000)
    except OSError as error:
        print(error.strerror)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that holds one numbered file."""
    assert write_numbered(tmp_path / "folder", "early", "early").name == "0001_early.json"
    return tmp_path / "folder"


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's folder for temporary files."""
    made = tmp_path / "temporary"
    made.mkdir()
    use_temporary_folder(monkeypatch, made)
    return made


def holds_only_the_early(folder: Path) -> bool:
    """Return whether a folder is unchanged."""
    (path,) = folder.iterdir()
    return path.name == "0001_early.json" and path.read_text() == "early"


def test_two_processes_lose_nothing(folder: Path) -> None:
    """Two processes that write at the same time get distinct numbers without a gap."""
    recorders = [
        subprocess.Popen(
            (sys.executable, "-c", _RECORDER, str(folder), name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("mine", "theirs")
    ]
    for recorder in recorders:
        assert recorder.stdout is not None
        assert recorder.stdout.readline() == "ready\n"
    for recorder in recorders:
        assert recorder.stdin is not None
        recorder.stdin.write("go\n")
        recorder.stdin.flush()
    for recorder in recorders:
        recorder.communicate()
        assert recorder.returncode == 0
    paths = sorted(folder.iterdir())
    assert [path.name[:4] for path in paths] == [f"{n:04}" for n in range(1, 2 * _EACH + 2)]
    written = {f"{name} {turn}" for name in ("mine", "theirs") for turn in range(_EACH)}
    assert {path.read_text() for path in paths} == {"early", *written}


def test_what_is_recorded_last_has_the_highest_number(folder: Path) -> None:
    """A gap in the numbers stays unused."""
    (folder / "0004_theirs.json").write_text("theirs")
    assert write_numbered(folder, "mine", "mine").name == "0005_mine.json"


_KILLED = """
import os, sys
from pathlib import Path
from netpipe.gate import numbered_files

def end(*_):
    os.kill(os.getpid(), 9)

Path.hardlink_to = end
numbered_files.write_numbered(Path(sys.argv[1]), "killed", "killed")
"""


def test_a_killed_recorder_blocks_nothing_and_leaves_nothing(folder: Path) -> None:
    """The next recorder takes the number and removes the stale file; a user's `.part` stays."""
    (folder / "0002.part").write_text("a user's own")
    command = (sys.executable, "-c", _KILLED, str(folder))
    assert subprocess.run(command, check=False).returncode == -9
    assert len(list(folder.iterdir())) == 3
    assert write_numbered(folder, "mine", "mine").name == "0002_mine.json"
    names = ["0001_early.json", "0002.part", "0002_mine.json"]
    assert sorted(path.name for path in folder.iterdir()) == names


def test_after_9999_a_number_has_five_digits(folder: Path) -> None:
    """A five-digit number is found again, and is above the four-digit ones."""
    (folder / "9999_theirs.json").write_text("theirs")
    written = [write_numbered(folder, "mine", "mine") for _ in range(2)]
    assert [path.name for path in written] == ["10000_mine.json", "10001_mine.json"]
    assert list(map(read_number, written)) == [10000, 10001]


@pytest.mark.parametrize("name", ["001_a.json", "00001_a.json", "20240101_a.json", "0001_.json"])
def test_another_name_has_no_number(name: str) -> None:
    """A name with fewer or more digits, or without text after them, has no number."""
    assert read_number(Path(name)) == 0


def test_a_file_that_others_may_read_survives_a_loss_of_power(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content is on the disk before its name is, and the name before the call returns."""
    events = note_syncs(monkeypatch)
    path = write_numbered(folder, "mine", "mine")
    assert events == ["part", "folder"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_full_disk_leaves_what_was_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full, earlier files are untouched and no part of the new one is left."""
    fill(monkeypatch, folder)
    with pytest.raises(OSError, match="No space left"):
        write_numbered(folder, "late", "x" * 100_000)
    assert holds_only_the_early(folder)


def test_a_file_that_grows_too_large_leaves_nothing(folder: Path, temporary: Path) -> None:
    """A write that fails midway leaves nothing in the folder and among the temporary files."""
    command = (sys.executable, "-c", _TOO_LARGE, str(folder))
    said = subprocess.run(
        command, env={"TMPDIR": str(temporary)}, check=True, capture_output=True, text=True
    ).stdout
    assert said == "File too large\n" * 2
    assert holds_only_the_early(folder)
    assert not list(temporary.iterdir())


def test_a_read_only_folder_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the system's own words, and the folder is unchanged."""
    make_read_only(monkeypatch, folder)
    with pytest.raises(OSError, match="Read-only"):
        write_numbered(folder, "late", "late")
    assert holds_only_the_early(folder)


def test_where_no_folder_can_be_made(tmp_path: Path) -> None:
    """A folder that cannot be made, even by root, is an error, not an endless loop."""
    (tmp_path / "file").write_text("not a folder")
    for folder in (tmp_path / "file" / "h200-x1", Path("/proc/netpipe/h200-x1")):
        with pytest.raises(OSError) as raised:  # noqa: PT011  # the type depends on the system
            write_numbered(folder, "late", "late")
        assert raised.value.errno


def test_what_is_kept_has_its_number(folder: Path, temporary: Path) -> None:
    """The file is kept in a new folder, under the name that it needs when copied back."""
    first, second = (write_to_temporary(folder, "late", "kept") for _ in range(2))
    assert first.parent != second.parent
    assert {first.parent.parent, second.parent.parent} == {temporary}
    assert (first.name, first.read_text()) == ("0002_late.json", "kept")


def test_without_the_folder_the_first_number_is_kept(tmp_path: Path, temporary: Path) -> None:
    """A folder that could not be made holds no number yet."""
    assert write_to_temporary(tmp_path / "absent", "late", "kept").name == "0001_late.json"
    assert len(list(temporary.iterdir())) == 1
