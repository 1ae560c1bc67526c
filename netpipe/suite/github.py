"""What a run tells GitHub Actions: an annotation for each failure, and the step summary."""

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
    latest,
    order_lines,
    verdict_lines,
)
from netpipe.suite.unused_waivers import waiver_problems
from netpipe.verdict.report import verdict_table

# https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
_ESCAPED_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_ESCAPED_PROPERTY = {**_ESCAPED_DATA, ":": "%3A", ",": "%2C"}


def annotations(reports: Iterable[Any], run: Run) -> Iterator[str]:
    """Give a workflow command for what failed, was not compared, or is accepted by the change.

    GitHub shows it at its line, or at its file.

    Args:
        reports: pytest's reports of what failed.
        run: Knows which tests are timed, and what they were held against.
    """
    for report in reports:
        if report.nodeid in run.timed:
            path, line, name = report.location
            where = f"file={_property(path)},line={(line or 0) + 1},title={_property(name)}"
            yield f"::error {where}::{_escaped(report.longreprtext, _ESCAPED_DATA)}"
    for one in run.compared:
        if one.is_missing:
            path, _, name = one.benchmark.partition("::")
            said = _escaped(f"{one.outcome}: {one.comparison.reason}", _ESCAPED_DATA)
            yield f"::warning file={_property(path)},title={_property(name)}::{said}"
    for sentence in waiver_problems(run):
        where = f"file={_property(run.acceptance.waivers_file)},title=waiver"
        yield f"::error {where}::{_escaped(sentence, _ESCAPED_DATA)}"
    for path, line in change_notes(run.acceptance):
        title = line.partition(":")[0]
        yield f"::warning file={_property(path)},title={title}::{_escaped(line, _ESCAPED_DATA)}"


def _property(text: str) -> str:
    return _escaped(text, _ESCAPED_PROPERTY)


def _escaped(text: str, codes: dict[str, str]) -> str:
    return "".join(codes.get(character, character) for character in text)


def add_step_summary(run: Run, path: Path) -> None:
    """Append what the terminal's summary says to the step summary, as Markdown.

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
        yield from _table(verdict_table(latest(run)))
    for table in (*comparison_tables(run), *change_tables(run.acceptance)):
        yield from _table(table)
    against = comparison_lines(run) if run.compares or run.options.against else ()
    for line in (*order_lines(run), *verdict_lines(run), *against, *run.notes):
        yield f"- {_cell(line)}"


def _table(table: Table) -> Iterator[str]:
    """Write a table of the terminal's as GitHub's Markdown."""
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
    """Write text that Markdown takes as it is: it holds the user's code and names."""
    one_line = " ".join(text.split())
    return "".join(f"\\{one}" if one in "\\`*_{}[]<>|#~" else one for one in one_line)
