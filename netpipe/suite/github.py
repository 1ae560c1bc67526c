"""Reports for GitHub Actions: an annotation for each failure, and the step summary."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.table import Table

from netpipe.errors import InputError
from netpipe.suite.acceptance import change_notes, change_tables
from netpipe.suite.run import Run
from netpipe.suite.summary import (
    comparison_lines,
    comparison_tables,
    last_sessions,
    order_lines,
    verdict_lines,
    waiver_problems,
)
from netpipe.verdict.report import verdict_table

# https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
_ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY_ESCAPES = _ESCAPES | str.maketrans({":": "%3A", ",": "%2C"})


def annotations(reports: Iterable[Any], run: Run) -> Iterator[str]:
    """Yield a workflow command for each failure, missing baseline, bad waiver and baseline change.

    Args:
        reports: pytest's reports of failures.
        run: The run, which knows which tests are timed.
    """
    for report in reports:
        if report.nodeid in run.timed:
            path, line, name = report.location
            yield _command("error", report.longreprtext, path, name, (line or 0) + 1)
    for result in run.results:
        if result.is_missing:
            path, _, name = result.benchmark.partition("::")
            yield _command("warning", f"{result.outcome}: {result.comparison.reason}", path, name)
    for sentence in waiver_problems(run):
        yield _command("error", sentence, run.acceptance.waivers_file, "waiver")
    for path, line in change_notes(run.acceptance):
        yield _command("warning", line, path, line.partition(":")[0])


def _command(level: str, message: str, path: str, title: str, line: int | None = None) -> str:
    file, title = (text.translate(_PROPERTY_ESCAPES) for text in (path, title))
    at_line = "" if line is None else f",line={line}"
    return f"::{level} file={file}{at_line},title={title}::{message.translate(_ESCAPES)}"


def add_step_summary(run: Run, path: Path) -> None:
    """Append the terminal's summary to the step summary, as Markdown.

    Raises:
        InputError: The file cannot be written.
    """
    text = "\n".join(_markdown(run)) + "\n"
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise InputError(path, "GITHUB_STEP_SUMMARY", "be writable", error.strerror) from error


def _markdown(run: Run) -> Iterator[str]:
    yield "## netpipe"
    if run.sessions:
        yield from _table(verdict_table(last_sessions(run)))
    for table in (*comparison_tables(run), *change_tables(run.acceptance)):
        yield from _table(table)
    compared = comparison_lines(run) if run.compares or run.options.against else ()
    for line in (*order_lines(run), *verdict_lines(run), *compared, *run.notes):
        yield f"- {_cell(line)}"


def _table(table: Table) -> Iterator[str]:
    """Yield the lines of a terminal table in GitHub's Markdown."""
    yield f"\n**{table.title}**\n"
    headings = [str(column.header) for column in table.columns]
    yield _row(headings)
    yield _row(["---"] * len(headings))
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        yield _row([str(cell) for cell in cells])
    yield ""


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """Escape text for Markdown: it holds the user's code and names."""
    one_line = " ".join(text.split())
    return "".join(f"\\{one}" if one in "\\`*_{}[]<>|#~" else one for one in one_line)
