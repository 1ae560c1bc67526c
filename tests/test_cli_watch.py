"""`netpipe watch`: the table, its lines without a terminal, and its exit codes."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from importlib import import_module
from io import StringIO
from pathlib import Path
from socket import gethostname
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from netpipe.cli import main
from netpipe.watching.logs import Logs
from netpipe.watching.window import Window
from tests.command import Netpipe
from tests.test_cli_live import Terminal, console_on, frames
from tests.watching.windows import line, make_window, write_log

# The kernel gives no process this number.
NO_PID = 2**30
# In `netpipe.cli`, the command takes the place of its module.
MODULE = import_module("netpipe.cli.watch")
PLACE = (MODULE, "output")


def of_ended(number: int, idle: float | None = 0.3, **given: Any) -> Window:
    """Return a window of a process that has ended on this host."""
    return make_window(number, idle, **{"host": gethostname(), "pid": NO_PID, **given})


@pytest.mark.parametrize(("idle", "code"), [(0.0, 0), (0.3, 1), (0.06, 3), (None, 3)])
def test_the_table_has_the_latest_windows(
    netpipe: Netpipe, tmp_path: Path, idle: float | None, code: int
) -> None:
    """The exit code is that of the verdict, which is in the first line."""
    path = write_log(tmp_path / "run.jsonl", *(of_ended(number, idle) for number in range(9)))
    shown = netpipe("watch", "--once", path)
    assert shown.exit_code == code, shown.output
    first, *_ = shown.stdout.splitlines()
    kind = {0: "healthy", 1: "loader-bound", 3: "inconclusive"}[code]
    assert first.startswith(f"{kind}: ")
    row = next(each.split() for each in shown.stdout.splitlines() if each.startswith(" run "))
    assert row[1:4] == ["50", "ms", "40.0%"]
    assert row[-2:] == [f"{kind},", "ended"]
    bars = {0.0: "▁", 0.3: "▃", 0.06: "▁", None: "▄"}
    assert bars[idle] * 9 in row


def test_a_terminal_may_lack_characters(tmp_path: Path) -> None:
    """The bars are replaced, and the exit code is still that of the verdict."""
    path = write_log(tmp_path / "run.jsonl", *(of_ended(number, 0.0) for number in range(9)))
    shown = CliRunner(charset="latin-1").invoke(main, ["watch", "--once", str(path)])
    assert (shown.exit_code, shown.exception) == (0, None)
    assert "?" * 9 in shown.stdout


def test_memory_that_keeps_growing_is_reported(netpipe: Netpipe, tmp_path: Path) -> None:
    """A line below the table has the process and its growth."""
    grows = (of_ended(number, memory_bytes=(100 + number) * 10**6) for number in range(12))
    write_log(tmp_path / "grows.jsonl", *grows)
    write_log(tmp_path / "steady.jsonl", *map(of_ended, range(12)))
    shown = netpipe("watch", "--once", tmp_path).stdout
    assert shown.splitlines()[-1] == "the memory of grows grows by 360 MB an hour"
    assert "memory of steady" not in shown


def test_memory_that_begins_to_grow_is_a_line(
    netpipe: Netpipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal, each process gets the line once, when it is first certain."""
    steady = [make_window(number, 0.0) for number in range(24)]
    grows = [replace(each, memory_bytes=(100 + n) * 10**6) for n, each in enumerate(steady)]
    write_log(tmp_path / "grows.jsonl", *grows[:3])
    write_log(tmp_path / "steady.jsonl", *steady)
    later = iter([grows[3:12], grows[12:18], grows[18:]])

    def write(_: float) -> None:
        if not (new := next(later, [])):
            raise KeyboardInterrupt
        with (tmp_path / "grows.jsonl").open("a") as file:
            file.write("".join(map(line, new)))

    monkeypatch.setattr(MODULE, "time", SimpleNamespace(sleep=write))
    said = netpipe("watch", tmp_path).stdout.splitlines()
    (place,) = (n for n, each in enumerate(said) if each.startswith("the memory of "))
    assert said[place] == "the memory of grows grows by 360 MB an hour"
    assert "grows: 2400 batches" in said[place - 1]


def test_ctrl_c_keeps_the_exit_code_of_the_verdict(
    netpipe: Netpipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may come at any moment, not only while the command waits."""

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("netpipe.reporting.training_table.growth_lines", interrupt)
    path = write_log(tmp_path / "run.jsonl", make_window())
    assert netpipe("watch", path).exit_code == 1


def test_the_lines_of_a_run_that_has_ended(netpipe: Netpipe, tmp_path: Path) -> None:
    """Without a terminal, the latest window is a line, and the command ends with the run."""
    path = write_log(tmp_path / "run.jsonl", *map(of_ended, range(9)))
    shown = netpipe("watch", path)
    assert shown.exit_code == 1
    window, verdict = shown.stdout.splitlines()
    assert re.match(r"\d\d:\d\d:\d\d run: 1800 batches; loader-bound: the device is idle", window)
    assert verdict.startswith("loader-bound: ")
    assert verdict.endswith("netpipe diagnose finds the cause")


def test_new_lines_are_followed(
    netpipe: Netpipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each new window is a line, and so is a change of the verdict; Ctrl-C ends the command."""
    folder = tmp_path / "run"
    folder.mkdir()
    paths = [folder / f"process-{number}.jsonl" for number in range(2)]
    for number, path in enumerate(paths):
        write_log(path, make_window(0, 0.0, host=f"node-{number}"))

    def write(_: float) -> None:
        number = len(paths[1].read_text().splitlines())
        if number == 4:
            raise KeyboardInterrupt
        for path, idle in zip(paths, (0.0, 0.5), strict=True):
            with path.open("a") as file:
                file.write(line(make_window(number, idle, host=f"node-{path.stem[-1]}")))

    monkeypatch.setattr(MODULE, "time", SimpleNamespace(sleep=write))
    shown = netpipe("watch", folder)
    assert shown.exit_code == 1
    said = [re.sub(r"^\d\d:\d\d:\d\d ", "", each)[:44] for each in shown.stdout.splitlines()]
    assert said == [
        "process-0: 200 batches; healthy: the device ",
        "process-1: 200 batches; healthy: the device ",
        "healthy: node-0 (process-0): the device is i",
        "process-0: 400 batches; healthy: the device ",
        "process-1: 400 batches; loader-bound: the de",
        "loader-bound: node-1 (process-1) makes the o",
        *["process-0: 600 batches; healthy: the device ",
          "process-1: 600 batches; loader-bound: the de"],
        *["process-0: 800 batches; healthy: the device ",
          "process-1: 800 batches; loader-bound: the de"],
    ]  # fmt: skip


def test_a_process_that_has_stopped_long_ago_is_not_judged(
    netpipe: Netpipe, tmp_path: Path
) -> None:
    """The log of an earlier run is shown as silent, and makes nobody wait."""
    write_log(tmp_path / "now.jsonl", *(make_window(number, 0.0) for number in range(9)))
    write_log(tmp_path / "before.jsonl", make_window(0, 0.9))
    shown = netpipe("watch", "--once", tmp_path)
    assert shown.exit_code == 0
    assert shown.stdout.startswith("healthy: the device is idle")
    assert "loader-bound, silent since 14 Nov" in " ".join(shown.stdout.split())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """A terminal of 80 columns as standard output."""
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(MODULE, "_POLL_S", 0.0)
    return console_on(monkeypatch, Terminal(), PLACE, force_terminal=True, width=80)


def test_a_terminal_shows_a_table_that_is_redrawn(
    netpipe: Netpipe, tmp_path: Path, terminal: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last table has what came while it was shown, in 80 columns."""
    windows = [make_window(0, 0.0), *map(make_window, (1, 2, 3))]
    path = write_log(tmp_path / "run.jsonl", windows[0])

    def end(logs: Logs) -> set[str]:
        write_log(path, *windows)
        return set() if len(logs.windows["run"]) == 1 else {"run"}

    monkeypatch.setattr(Logs, "find_ended", end)
    assert netpipe("watch", path).exit_code == 1
    drawn = frames(terminal.getvalue())
    assert drawn[0].startswith("healthy: the device is idle")
    assert drawn[-2:] == ["run 50 ms 40.0% 30.0% 30 ms 200 MB ▁▃▃▃ loader-bound,", "ended"]
    assert max(map(len, drawn)) <= 80


@pytest.mark.parametrize("variable", ["CI", "NO_COLOR"])
def test_ci_gets_lines_on_a_terminal(
    netpipe: Netpipe, tmp_path: Path, terminal: StringIO, monkeypatch: pytest.MonkeyPatch,
    variable: str,
) -> None:  # fmt: skip
    """Some CI systems give their commands a terminal, but keep what is redrawn."""
    monkeypatch.setenv(variable, "true")
    if variable == "NO_COLOR":
        console_on(monkeypatch, terminal, PLACE, force_terminal=True, width=80)
    netpipe("watch", write_log(tmp_path / "run.jsonl", of_ended(0)))
    assert "run: 200 batches; loader-bound" in terminal.getvalue()
    assert "\x1b[2K" not in terminal.getvalue()


def test_names_from_a_log_are_harmless(netpipe: Netpipe, tmp_path: Path) -> None:
    """An escape code in a host's name or a verdict is text."""
    odd = of_ended(0, host="\x1b]0;title\x07[red]")
    odd = replace(odd, verdict=replace(odd.verdict, message="\x1b[5m::error::"))
    folder = tmp_path / "run"
    folder.mkdir()
    write_log(folder / "a[b].jsonl", odd)
    write_log(folder / "c.jsonl", of_ended(0, 0.0))
    shown = netpipe("watch", "--once", folder)
    assert "�]0;title[red] (a[b]) makes the others wait" in shown.stdout
    assert "\x1b" not in shown.stdout


def test_a_file_of_something_else_is_misuse(netpipe: Netpipe, tmp_path: Path) -> None:
    """The error is one line that names it."""
    for path in (tmp_path, tmp_path / "absent.jsonl", Path(__file__)):
        shown = netpipe("watch", path)
        assert (shown.exit_code, shown.stdout) == (2, "")
        assert len(shown.stderr.splitlines()) == 1
        assert str(path) in shown.stderr


RUN = """
import itertools, sys, time, netpipe
for _ in netpipe.watch(itertools.repeat({"x": 1}), log=sys.argv[1], window_s=0.2):
    time.sleep(0.001)
"""


def test_a_real_run_is_watched_until_it_is_killed(tmp_path: Path) -> None:
    """`kill -9` ends the command as well, and the log stays readable."""
    path = tmp_path / "run.jsonl"
    with subprocess.Popen([sys.executable, "-c", RUN, path]) as run:
        try:
            ends_s = time.monotonic() + 60
            while not (path.exists() and path.read_text().count("\n") > 1):
                assert time.monotonic() < ends_s
                time.sleep(0.05)
            command = [sys.executable, "-m", "netpipe", "watch", str(path)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
                assert watching.stdout is not None
                assert " run: " in watching.stdout.readline()
                os.kill(run.pid, signal.SIGKILL)
                rest = watching.stdout.read()
        finally:
            run.kill()
    assert watching.returncode == 0, rest
