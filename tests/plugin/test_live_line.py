"""A terminal shows the phase of a session in a line that is replaced."""

from io import StringIO

import pytest
from _pytest.terminal import TerminalReporter

from netpipe.plugin.run_plugin import _draw_progress
from tests.test_cli_live import Terminal


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 40 columns, outside CI."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    return Terminal()


def draw(pytester: pytest.Pytester, terminal: StringIO, *texts: str) -> str:
    """Draw texts one after another; return what the terminal receives."""
    config = pytester.parseconfig()
    config.pluginmanager.register(TerminalReporter(config, terminal), "terminalreporter")
    for text in texts:
        _draw_progress(config, text)
    return terminal.getvalue()


def test_a_line_replaces_the_last_one(pytester: pytest.Pytester, terminal: Terminal) -> None:
    """Each text covers the line, an empty one removes it; the cursor is at its start."""
    blank = " " * 39
    assert draw(pytester, terminal, "rounds, 0:40 left", "") == (
        f"\r{'  netpipe: rounds, 0:40 left'.ljust(39)}\r\r{blank}\r"
    )


def test_a_long_line_is_cut(pytester: pytest.Pytester, terminal: Terminal) -> None:
    """A line that wrapped could not be replaced."""
    assert draw(pytester, terminal, "x" * 100) == f"\r  netpipe: {'x' * 28}\r"


@pytest.mark.parametrize("where", ["file", "ci"])
def test_only_people_see_it(
    pytester: pytest.Pytester, terminal: Terminal, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A log file has only whole lines, and so has CI, even where it has a terminal."""
    if where == "ci":
        monkeypatch.setenv("CI", "true")
    assert draw(pytester, terminal if where == "ci" else StringIO(), "rounds") == ""
