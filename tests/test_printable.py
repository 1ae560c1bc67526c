"""Outside text is made harmless for terminals, logs, XML and pages."""

import pytest
from rich.console import Console

from netpipe.cli.console import notes, output
from netpipe.errors import SessionError
from netpipe.jobs import parent
from netpipe.printable import make_loggable, make_printable
from netpipe.reporting.tables import TerminalTable
from tests.command import Netpipe

HOSTILE = "a\x1b]0;title\x07b\x1b[2Jc\rd\x9be\u202ef\udcffg\0h"


def test_only_lines_and_tabs_stay_of_the_control_characters() -> None:
    """Other control characters become a one-column mark; letters of any language stay."""
    assert make_printable(HOSTILE) == "a�]0;title�b�[2Jc�d�e�f�g�h"
    assert make_printable("a\tb\nß → 日本") == "a\tb\nß → 日本"


@pytest.mark.parametrize("line", ["::error::x", "  ::add-mask::x", "##[error]x"])
def test_no_line_is_a_command_to_github(line: str) -> None:
    """A workflow command of GitHub Actions is defused; test ids stay."""
    first, shown = make_loggable(f"test_a.py::test_b\n{line}").splitlines()
    assert first == "test_a.py::test_b"
    assert shown.lstrip().startswith("\\")
    assert shown.replace("\\", "") == line


@pytest.mark.parametrize("console", [notes, output], ids=["stderr", "stdout"])
@pytest.mark.parametrize("in_table", [False, True], ids=["line", "table"])
def test_a_console_shows_only_its_own_codes(console: Console, in_table: bool) -> None:
    """Text in lines, tables and titles is made printable."""
    table = TerminalTable(HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(HOSTILE)
    with console.capture() as captured:
        console.print(table if in_table else HOSTILE, soft_wrap=True)
    shown = captured.get()
    assert "�" in shown
    assert shown == make_printable(shown)


def test_an_error_of_a_loader_is_printable(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loader cannot set the terminal's title, clear it, or give commands to GitHub."""

    def fail(*_: object, **__: object) -> None:
        raise SessionError(f"ValueError: {HOSTILE}\n::error::forged")

    monkeypatch.setattr(parent, "run_session", fail)
    result = netpipe("lint", "a:b")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-2:] == [
        f"netpipe: ValueError: {make_printable(HOSTILE)}",
        "\\::error::forged",
    ]
