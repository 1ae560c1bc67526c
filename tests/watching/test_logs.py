"""The logs of watched processes: growing, cut, replaced, and files that are something else."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from errno import EACCES
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest

from netpipe.errors import InputError
from netpipe.watching import logs
from netpipe.watching.logs import Log, Logs, read_merged
from netpipe.watching.window import Window
from tests.watching.windows import line, make_window, write_log


def numbers(windows: Any) -> list[int]:
    """Return the numbers of windows."""
    return [each.batches_before // 200 for each in windows]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The log of a run."""
    return tmp_path / "run.jsonl"


def test_a_growing_log_is_read_as_it_grows(path: Path) -> None:
    """A line is read once, when its end is there."""
    log = Log(write_log(path, *map(make_window, range(3))))
    assert numbers(log.read()) == [0, 1, 2]
    assert numbers(log.read()) == []
    text = line(make_window(3))
    for part, expected in ((text[:100], []), (text[100:-1], []), ("\n", [3])):
        with path.open("a") as file:
            file.write(part)
        assert numbers(log.read()) == expected


@pytest.mark.parametrize("cut", [1, 20, 400])
def test_a_run_may_go_on_in_the_log_of_a_killed_one(path: Path, cut: int) -> None:
    """The cut line is lost, the first line of the next run is not."""
    path.write_text(line(make_window(0)) + line(make_window(1))[:cut] + line(make_window(2)))
    assert numbers(Log(path).read()) == [0, 2]


def test_another_run_may_replace_the_log(path: Path) -> None:
    """A file that has become shorter is read from its start."""
    log = Log(write_log(path, *map(make_window, range(3))))
    assert len([*log.read()]) == 3
    write_log(path, make_window(9))
    assert numbers(log.read()) == [9]


def test_a_log_of_several_processes_is_refused(path: Path) -> None:
    """Their windows cannot be told apart; another run may go on in the log of an earlier one."""
    mine, other, again = make_window(1), make_window(1, pid=8), make_window(2)
    # The first window of the later run may be lost on a full disk.
    assert len([*Log(write_log(path, mine, other)).read()]) == 2
    with pytest.raises(InputError, match=r"pid must be that of one process; found 7 .* after 8 "):
        list(Log(write_log(path, mine, other, again)).read())
    write_log(path.with_name("other.jsonl"), mine)
    with pytest.warns(UserWarning, match="left out: .*pid must be that of one process"):
        assert {*Logs(path.parent).windows} == {"other"}


def test_a_log_may_be_removed_and_written_again(path: Path) -> None:
    """Until the next run writes its first line, there is nothing new."""
    log = Log(write_log(path, *map(make_window, range(3))))
    with path.open("a") as file:
        file.write("damaged\n")
    assert len([*log.read()]) == 3
    path.unlink()
    assert not [*log.read()]
    path.touch()
    assert not [*log.read()]
    write_log(path, make_window(9, pid=8))
    assert numbers(log.read()) == [9]


def test_an_unreadable_log_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is that of a wrong file, which a folder of logs leaves out."""

    def refuse(*_: object) -> None:
        raise PermissionError(EACCES, "Permission denied")

    log = Log(write_log(path, make_window()))
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match="file must be readable; found Permission denied"):
        list(log.read())


def test_only_the_end_of_a_long_log_is_read(path: Path) -> None:
    """The line in which the end begins is left out."""
    write_log(path, *map(make_window, range(20)))
    size = len(line(make_window(19)))
    assert numbers(Log(path, tail_bytes=3 * size + 5).read()) == [17, 18, 19]
    assert numbers(Log(path, tail_bytes=1 << 30).read()) == [*range(20)]


@pytest.mark.parametrize(
    ("windows", "found"),
    [
        (1, [1]),
        (5, [1] * 5),
        (6, [2, 2, 2]),
        (9, [2, 2, 2, 2, 1]),
        (11, [4, 4, 3]),
        (13, [4, 4, 4, 1]),
    ],
)
def test_the_windows_of_a_whole_log_are_merged(path: Path, windows: int, found: list[int]) -> None:
    """A log of weeks needs no more memory than one of hours; each window counts once."""
    write_log(path, *map(make_window, range(windows)))
    merged = read_merged(path, 3)
    assert [round(each.figures.seconds / 10.0) for each in merged] == found
    assert sum(each.figures.batches for each in merged) == 200 * windows
    assert numbers(merged)[-1] == windows - found[-1]


WHOLE = line(make_window())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("# a page\n", "file must be a log of netpipe.watch; found b'# a page"),
        ('{"loss": 1}\n', "file must be a log of netpipe.watch"),
        ("[1]\n", "file must be a log of netpipe.watch"),
        ("\0" * 100_000, "file must be a log of netpipe.watch"),
        ("[" * 60_000 + "\n", "file must be a log of netpipe.watch"),
        (WHOLE.replace("training/1", "training/2"), "schema must be .*/1; found .*upgrade this"),
        (WHOLE.replace('"batches": 200', '"batches": -1'), "figures.batches must be at least 0"),
        (WHOLE.replace("2023-11", "2023-13"), "run.jsonl: window must hold every field"),
    ],
)
def test_another_file_is_refused(path: Path, content: str, message: str) -> None:
    """The error names the file and the reason."""
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        list(Log(path).read())


@pytest.mark.parametrize("make", [lambda _: None, os.mkfifo, lambda path: path.write_text("")])
def test_without_a_window_there_is_an_error(path: Path, make: Callable[[Path], object]) -> None:
    """It says when the first line comes; a pipe, which could hang, is not opened."""
    make(path)
    with pytest.raises(InputError, match="writes a line when a window ends: the first after 10 s"):
        Logs(path)
    with pytest.raises(InputError, match=r"run\.jsonl: (file|log) must"):
        read_merged(path, 3)


def test_a_folder_holds_a_log_for_each_process(tmp_path: Path) -> None:
    """Processes may join later; other files are left out with one warning."""
    write_log(tmp_path / "a.jsonl", make_window(0), make_window(1))
    (tmp_path / "metrics.jsonl").write_text('{"loss": 1}\n')
    (tmp_path / "notes.txt").write_text("other")
    with pytest.warns(UserWarning, match=r"left out: .*metrics.jsonl: .* found .*loss") as caught:
        found = Logs(tmp_path)
    assert len(caught) == 1
    write_log(tmp_path / "b.jsonl", make_window(2))
    assert [(name, window.batches_before) for name, window in found.read()] == [("b", 400)]
    assert {name: len(each) for name, each in found.windows.items()} == {"a": 2, "b": 1}


@pytest.fixture
def child() -> Any:
    """A process that lives until its input ends."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def ended_now(seconds_ago: float, pid: int, host: str | None = None) -> Window:
    """Return a window of a process on this host, unless another one is given."""
    ended = datetime.fromtimestamp(time.time() - seconds_ago, UTC).isoformat()
    return make_window(ended=ended, pid=pid, host=host or gethostname())


def test_the_end_of_a_process_is_seen_on_its_host(path: Path, child: Any) -> None:
    """A killed process has ended also before its parent waits for it."""
    write_log(path, ended_now(-5.0, child.pid), ended_now(-5.0, child.pid))
    windows = Logs(path).windows["run"]

    def has_ended(*, seconds_ago: float, host: str | None = None) -> bool:
        windows.append(ended_now(seconds_ago, child.pid, host))
        return logs._has_ended(windows[-1])

    assert not logs._has_ended(windows[-1])
    assert has_ended(seconds_ago=1e6), "a process that began later has taken the number"
    child.kill()
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert has_ended(seconds_ago=100.0)
    assert not has_ended(seconds_ago=0.0), "a line just came"
    assert not has_ended(seconds_ago=100.0, host="elsewhere")
    child.wait()
    assert has_ended(seconds_ago=100.0)
