"""Files are written completely or not at all."""

import errno
import os
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.files.whole_file import refuse_unwritable, writable_folder, write_whole
from tests.disk import fill, make_read_only, note_syncs


def test_a_file_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    """The new file replaces the old one, and no temporary file is left."""
    path = tmp_path / "picture.svg"
    path.write_text("old and longer", encoding="utf-8")
    with path.open(encoding="utf-8") as reader:
        write_whole(path, "new", "--svg")
        assert reader.read() == "old and longer"  # a reader that opened it before
    assert path.read_text(encoding="utf-8") == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_unwritable_file_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    """A folder in the file's place: the error names file and option."""
    path = tmp_path / "picture.svg"
    path.mkdir()
    with pytest.raises(InputError, match=r"picture\.svg: --svg .*writable"):
        write_whole(path, "new", "--svg")
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_content_outlives_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old content stays if the disk is full."""
    path = tmp_path / "picture.svg"
    path.write_text("old", encoding="utf-8")
    fill(monkeypatch, tmp_path)
    with pytest.raises(InputError, match="No space left"):
        write_whole(path, "new", "--svg")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_users_own_part_stays(tmp_path: Path) -> None:
    """Temporary names are unique, and ours."""
    path, part = tmp_path / "page.html", tmp_path / "page.html.part"
    part.write_text("a user's own")
    refuse_unwritable(path, "--html")
    write_whole(path, "new", "--html")
    assert part.read_text() == "a user's own"


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_followed(exists: bool, tmp_path: Path) -> None:
    """The link's target is replaced, or made, and the link stays; so does a link to the link."""
    (tmp_path / "kept").mkdir()
    target, link = tmp_path / "kept" / "page.html", tmp_path / "page.html"
    if exists:
        target.write_text("old")
    link.symlink_to("kept/page.html")
    (tmp_path / "second").symlink_to(link)
    refuse_unwritable(tmp_path / "second", "--html")
    assert target.exists() == exists
    write_whole(tmp_path / "second", "new", "--html")
    assert (link.is_symlink(), target.is_symlink()) == (True, False)
    assert (target.read_text(), link.read_text()) == ("new", "new")
    assert list(target.parent.iterdir()) == [target]


def test_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    """A circle of links is refused."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for write in (refuse_unwritable, partial(write_whole, content="new")):
        with pytest.raises(InputError, match=os.strerror(errno.ELOOP)):
            write(tmp_path / "a", option="--html")


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A link to /dev/null, which a wrong write replaces instead of the device."""
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    return link


def test_a_device_stays_a_device(device: Path) -> None:
    """A device is written to, not replaced by a file."""
    refuse_unwritable(device, "--html")
    write_whole(device, "new", "--html")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert list(device.parent.iterdir()) == [device]


def test_a_full_device_is_an_error() -> None:
    """The error says that the content is lost."""
    with pytest.raises(InputError, match=r"/dev/full: --html .*No space left"):
        write_whole(Path("/dev/full"), "new", "--html")


def test_a_pipe_gets_all(tmp_path: Path) -> None:
    """The pipe's reader gets the whole content, and the check writes nothing."""
    os.mkfifo(tmp_path / "pipe")
    command = ["cat", str(tmp_path / "pipe")]
    refuse_unwritable(tmp_path / "pipe", "--html")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        write_whole(tmp_path / "pipe", "new" * 10_000, "--html")
        assert reader.communicate()[0] == "new" * 10_000
    assert (tmp_path / "pipe").is_fifo()


_TO_STDOUT = """
import os, sys
from pathlib import Path
from netpipe.files.whole_file import refuse_unwritable, write_whole

print("before", flush=True)
refuse_unwritable(Path(sys.argv[1]), "--html")
write_whole(Path(sys.argv[1]), "new\\n", "--html")
print("after", flush=True)
"""


@pytest.mark.parametrize("into", ["pipe", "file"])
def test_standard_output_is_written_in_its_place(into: str, tmp_path: Path) -> None:
    """The content lies between other output, in a pipe and in a file."""
    command = [sys.executable, "-c", _TO_STDOUT, "/dev/stdout"]
    file = tmp_path / "printed"
    with file.open("wb") as stream:
        output = subprocess.PIPE if into == "pipe" else stream
        done = subprocess.run(command, check=True, stdout=output)
    printed = done.stdout if into == "pipe" else file.read_bytes()
    assert printed == b"before\nnew\nafter\n"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_keeps_its_mode(tmp_path: Path) -> None:
    """A replaced file keeps its mode; a new one gets the umask's."""
    kept, new = tmp_path / "kept", tmp_path / "new"
    kept.touch()
    kept.chmod(0o604)
    before = os.umask(0o027)
    try:
        for path in (kept, new):
            write_whole(path, "new", "--html")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o7777 for path in (kept, new)] == [0o604, 0o640]


def test_a_file_in_a_closed_folder_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that may be written is; one that would have to be made is refused."""
    path = tmp_path / "page.html"
    path.write_text("old and longer")
    make_read_only(monkeypatch, tmp_path)
    monkeypatch.setattr(os, "access", lambda place, _: Path(place) != tmp_path)
    refuse_unwritable(path, "--html")
    write_whole(path, "new", "--html")
    assert path.read_text() == "new"
    for write in (refuse_unwritable, partial(write_whole, content="new")):
        with pytest.raises(InputError, match=r"absent: --html .*Read-only"):
            write(tmp_path / "absent", option="--html")


def test_a_read_only_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read-only file is refused, although it could be replaced."""
    path = tmp_path / "page.html"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    for write in (refuse_unwritable, partial(write_whole, content="new")):
        with pytest.raises(InputError, match="Permission denied"):
            write(path, option="--html")
    assert path.read_text() == "old"


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content and name are synced before the function returns, unless sync is not needed."""
    events = note_syncs(monkeypatch)
    replace = Path.replace

    def note(path: Path, target: Path) -> Path:
        events.append("replace")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", note)
    write_whole(tmp_path / "page.html", "new", "--html")
    assert events == ["part", "replace", tmp_path.name]
    write_whole(tmp_path / "page.html", "new", "--html", lasts=False)
    assert events[3:] == ["replace"]


_WRITER = """
import sys
from pathlib import Path
from netpipe.files.whole_file import refuse_unwritable, write_whole

path, content = Path(sys.argv[1]), sys.argv[2] * 100_000
sys.stdin.readline()
for _ in range(100):
    refuse_unwritable(path, "--html")
    write_whole(path, content, "--html", lasts=False)
"""


def test_two_writers_leave_a_whole_file(tmp_path: Path) -> None:
    """Neither writer fails, and readers never see a part or a mixture."""
    path = tmp_path / "page.html"
    path.write_text("old")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), letter], stdin=subprocess.PIPE, text=True
        )
        for letter in "ab"
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.close()
    found = set()
    while any(writer.poll() is None for writer in writers):
        found.add(path.read_text())
    assert [writer.returncode for writer in writers] == [0, 0]
    assert found <= {"old", "a" * 100_000, "b" * 100_000}
    assert list(tmp_path.iterdir()) == [path]


def test_a_text_that_fails_to_encode_leaves_nothing(tmp_path: Path) -> None:
    """Text that cannot be encoded is not written at all."""
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "picture.svg", "\ud800", "--svg")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [".", "/", "absent/page.html"])
def test_a_file_that_cannot_be_written_is_refused_early(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder, and a file in a missing folder, are refused early."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"--html .*writable"):
        refuse_unwritable(Path(name), "--html")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_made_and_left_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An existing folder is fine; the absolute path survives a change of folder."""
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert writable_folder(Path("a/b"), "--trace") == tmp_path / "a" / "b"
        assert list((tmp_path / "a" / "b").iterdir()) == []


@pytest.mark.parametrize("path", ["file", "file/below", "/proc/sys"])
def test_an_unwritable_folder_is_named(tmp_path: Path, path: str) -> None:
    """The error names a file in the folder's place or above it, or an unwritable folder."""
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=rf"{path}: --trace .*folder"):
        writable_folder(tmp_path / path, "--trace")


def test_a_file_that_can_be_written_is_not_touched(tmp_path: Path) -> None:
    """The check changes no file and creates none."""
    path = tmp_path / "page.html"
    refuse_unwritable(path, "--html")
    assert list(tmp_path.iterdir()) == []
    path.write_text("old", encoding="utf-8")
    refuse_unwritable(path, "--html")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]
