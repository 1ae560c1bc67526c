"""The progress of a session: on a terminal, in a pipe, and with --quiet."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from netpipe.cli import progress_display
from netpipe.cli.console import PrintableConsole
from netpipe.cli.progress_display import show_progress, show_rows
from netpipe.jobs import parent
from netpipe.jobs.progress import OnProgress, Progress
from tests.command import Netpipe, document
from tests.measurements import EMULATED, make_measurement

LIMIT = "this usually takes 32 s"
ROUNDS = "step alone, loading, training"
REPORTED = (
    Progress("starting a process"),
    Progress(ROUNDS, 0.0, 20.0, "round 1 of about 9"),
    Progress(ROUNDS, 8.2, 20.0, "round 3 of about 9"),
)
ESCAPE = "\x1b"
# A command that makes a file for each phase it has shown, and a child that waits for these files.
COMMAND = """
import sys
from netpipe.cli import main
from netpipe.jobs import parent

class Reader(parent.ProgressReader):
    def __init__(self, file, on_progress, clock):
        def show(progress):
            on_progress(progress)
            file.with_name(progress.doing).touch()

        super().__init__(file, show, clock)

parent.ProgressReader = Reader
parent.CHILD_COMMAND = (sys.executable, sys.argv.pop(1))
main()
"""
CHILD = """
import time
from netpipe.clock import Clock
from netpipe.jobs.progress import ProgressWriter
from netpipe.jobs.registry import read_request
from netpipe.jobs.request import progress_file, write_result
from tests.measurements import EMULATED, make_measurement
request = read_request()
doing = ProgressWriter(progress_file(request), Clock()).enter_phase
def wait_until_shown(phase):
    ends_s = time.monotonic() + 60
    while not progress_file(request).with_name(phase).exists():
        assert time.monotonic() < ends_s, phase
        time.sleep(0.01)
wait_until_shown("starting a process")
doing("warming up the step")
wait_until_shown("warming up the step")
doing("loading", 60.0, "round 3 of about 9")
wait_until_shown("loading")
write_result(request, {"measurement": make_measurement(device=EMULATED).to_document()})
"""
PHASES = ("starting a process", "warming up the step", "loading")
ROOT = Path(__file__).parents[1]


class Terminal(StringIO):
    """A file that claims to be a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def console_on(
    monkeypatch: pytest.MonkeyPatch,
    file: StringIO,
    place: tuple[Any, str] = (progress_display, "notes"),
    **kwargs: Any,
) -> StringIO:
    """Write what a module prints on one of its consoles to a file."""
    look = {"width": 100, "markup": False, "emoji": False, "highlight": False, **kwargs}
    monkeypatch.setattr(*place, PrintableConsole(file=file, **look))
    return file


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """A terminal of 100 columns as standard error."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return console_on(monkeypatch, Terminal(), force_terminal=True)


def show(label: str = "h100 (derived)", reported: tuple[Progress, ...] = REPORTED) -> None:
    """Show what a session reports."""
    with show_progress(label) as on_progress:
        assert on_progress is not None
        for progress in reported:
            on_progress(progress)


def frames(written: str) -> list[str]:
    """Return every drawn line without escape codes."""
    uncoloured = re.sub(r"\x1b\[[\d;]*m", "", written)
    lines = re.split(r"(?:\x1b\[[\d;?]*[A-Za-z]|[\r\n])+", uncoloured)
    return [" ".join(line.split()) for line in lines if line.strip()]


def test_a_terminal_shows_the_phase_and_the_time_left(terminal: StringIO) -> None:
    """The line names the accelerator, the phase and the round."""
    show()
    last = frames(terminal.getvalue())[-1]
    assert f"h100 (derived): {ROUNDS}, {REPORTED[-1].detail}" in last
    assert "41%" in last
    assert "0:12 left" in last


def test_without_a_total_the_elapsed_time_is_shown(terminal: StringIO) -> None:
    """The bar has neither a percentage nor the time left."""
    show(reported=REPORTED[:1])
    text = terminal.getvalue()
    assert "h100 (derived): starting a process" in text
    assert "0:00" in text
    assert "%" not in text
    assert "left" not in text


def test_after_the_expected_end_the_elapsed_time_is_shown(terminal: StringIO) -> None:
    """A measurement that takes longer shows the elapsed time instead of the time left."""
    show(reported=(Progress("a trace of some steps", 20.0, 20.0),))
    text = terminal.getvalue()
    assert "100%" in text
    assert "0:00" in text
    assert "left" not in text


@pytest.mark.parametrize("width", [50, 80])
def test_a_narrow_terminal_cuts_the_description(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """The percentage and the time left stay, in one line."""
    monkeypatch.setenv("TERM", "xterm")
    file = console_on(monkeypatch, Terminal(), force_terminal=True, width=width)
    show()
    last = frames(file.getvalue())[-1]
    assert last.startswith("h100 (derived): step")
    assert re.search(r"… \S+ 41% 0:12 left$", last)
    assert len(last) <= width


def test_the_bar_is_removed_at_the_end(terminal: StringIO) -> None:
    """The bar's line is erased, and the cursor is shown again."""
    show()
    assert terminal.getvalue().rstrip().endswith((f"{ESCAPE}[2K", f"{ESCAPE}[?25h"))
    assert f"{ESCAPE}[2K" in terminal.getvalue().rpartition("41%")[2]


@pytest.mark.parametrize("how", ["pipe", "NO_COLOR", "dumb"])
def test_without_a_terminal_each_phase_is_a_line(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """No bar and no escape code: in a pipe, with NO_COLOR, and where lines cannot be redrawn."""
    monkeypatch.setenv("TERM", "dumb" if how == "dumb" else "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if how == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
    file = StringIO() if how == "pipe" else Terminal()
    console_on(monkeypatch, file, force_terminal=how != "pipe")
    show()
    phases = [REPORTED[0].doing, ROUNDS]
    assert file.getvalue().splitlines() == [f"h100 (derived): {phase}" for phase in phases]


@pytest.mark.parametrize("drawn", [True, False])
def test_escape_codes_in_names_are_harmless(
    monkeypatch: pytest.MonkeyPatch, terminal: StringIO, drawn: bool
) -> None:
    """An escape code or markup in a stage's name is text."""
    file = terminal if drawn else console_on(monkeypatch, StringIO())
    show("[red]a\x1b[5mb", (Progress("stage [bold]\x1b]0;title\x07 \x9b5m", 0.0, 0.0),))
    text = file.getvalue()
    assert "[red]a�[5mb: " in text
    assert "[bold]�]0;title �5m" in text
    assert "\x1b[5m" not in text
    assert "\x1b]" not in text


@pytest.fixture
def reporting_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the session by one that reports its progress and is healthy."""

    def measured(*_: object, progress: OnProgress | None = None) -> Any:
        if progress is not None:
            for reported in REPORTED:
                progress(reported)
        return make_measurement(device=EMULATED)

    monkeypatch.setattr(parent, "run_measurement", measured)


@pytest.mark.usefixtures("reporting_session")
def test_measure_reports_progress_on_standard_error(netpipe: Netpipe) -> None:
    """Standard output has the document alone."""
    result = netpipe("measure", "--loader", "a:b", "--accelerator", "emulated:8xh100", "--json")
    document(result, "measurement.1.json")
    assert result.stderr.splitlines() == [
        LIMIT,
        f"8xh100 (derived): {REPORTED[0].doing}",
        f"8xh100 (derived): {ROUNDS}",
    ]


@pytest.mark.usefixtures("reporting_session")
def test_a_quiet_measure_reports_no_progress(netpipe: Netpipe) -> None:
    """`--quiet` leaves standard error empty if there is no error."""
    result = netpipe("measure", "--loader", "a:b", "--accelerator", "emulated:30ms", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "healthy" in result.stdout


def test_a_quiet_measure_prints_its_error(netpipe: Netpipe) -> None:
    """--quiet hides no error."""
    result = netpipe("measure", "--loader", "absent.py:b", "--accelerator", "auto", "--quiet")
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("words", [(), ("--quiet",)])
def test_lint_reports_progress_unless_quiet(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """A lint passes a callback for progress, as a measurement does."""
    callbacks: list[object] = []
    empty = {"schema": "netpipe.lint/1", "intent": "throughput", "grain_version": "0.2.18",
             "graph": [], "findings": [], "silenced": [], "trials": []}  # fmt: skip

    def linted(*_: object, progress: OnProgress | None = None) -> dict[str, Any]:
        callbacks.append(progress)
        return empty

    monkeypatch.setattr(parent, "run_session", linted)
    assert netpipe("lint", "a:b", *words).exit_code == 0
    assert (callbacks == [None]) is bool(words)


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., list[str]]:
    """Return the command of a process whose child only reports progress."""
    (tmp_path / "child.py").write_text(CHILD)
    return lambda *words: [
        sys.executable, "-c", COMMAND, str(tmp_path / "child.py"), "measure", "--loader", "a:b",
        "--accelerator", "emulated:30ms", *words,
    ]  # fmt: skip


def environment(**further: str) -> dict[str, str]:
    """Return the environment of this process, with this repository on Python's path."""
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    return {**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "120", **further}


def test_a_real_session_reaches_a_real_terminal(command: Callable[..., list[str]]) -> None:
    """A child's phases reach the terminal of the process that waits for it."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command("--json"),
        env=environment(),
        stderr=theirs,
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as child:
        os.close(theirs)
        written = b"".join(iter(lambda: _read(ours), b"")).decode()
        assert child.stdout is not None
        assert child.stdout.read().startswith(b"{")
    os.close(ours)
    assert child.returncode == 0
    for phase in (*PHASES[:2], "loading, round 3"):
        assert f"30ms (derived): {phase}" in written
    assert "1:00 left" in written


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # EIO: the writer has ended
        return b""


@pytest.mark.parametrize("further", [{}, {"FORCE_COLOR": "1"}])
def test_a_real_pipe_holds_plain_lines(
    command: Callable[..., list[str]], further: dict[str, str]
) -> None:
    """A file gets plain lines, even if colours are forced."""
    done = subprocess.run(
        command(), env=environment(**further), capture_output=True, check=True, text=True
    )
    assert done.stderr.splitlines() == [LIMIT, *(f"30ms (derived): {phase}" for phase in PHASES)]


def show_phases(monkeypatch: pytest.MonkeyPatch, *ends: str) -> None:
    """Show a preparation of 1000 rows, half of them from an earlier run; each reading takes 2 s."""
    clock = iter(range(100, 1000, 2))
    monkeypatch.setattr(progress_display, "monotonic", lambda: float(next(clock)))
    with show_rows("preparing") as show:
        for done in (500, 700, 900):
            show(done, 2000, "reading")
        for phase in ends:
            show(1000, 2000, phase)


def test_rows_a_second_count_what_was_done_now(
    terminal: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The work of an earlier run is part of the bar, but not of the rate."""
    show_phases(monkeypatch)
    # The first update reads the clock once, each later one twice.
    assert re.match(
        r"preparing: reading, 50 rows/s, 0:22 left \S+ 45%", frames(terminal.getvalue())[-1]
    )


def test_without_a_terminal_a_phase_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each phase has a line, and another one after half a minute."""
    monkeypatch.setattr(progress_display, "_LINE_EVERY_S", 5.0)
    file = console_on(monkeypatch, StringIO())
    show_phases(monkeypatch, "writing")
    lines = file.getvalue().splitlines()
    assert lines[0] == "preparing: reading"
    assert re.fullmatch(r"preparing: reading, \d+ rows/s, 0:\d\d left", lines[1])
    assert lines[-1] == "preparing: writing"
