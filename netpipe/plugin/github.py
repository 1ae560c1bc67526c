"""Output of a run for GitHub Actions: annotations and the step summary."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.table import Table

from netpipe.errors import InputError
from netpipe.plugin.run import Run
from netpipe.plugin.summary import change_notes, summary_parts
from netpipe.printable import make_printable

# https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
_ESCAPES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY_ESCAPES = _ESCAPES | str.maketrans({":": "%3A", ",": "%2C"})

# Tables and lines may contain the user's code and names.
_MARKDOWN_ESCAPES = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_{}[]<>|#~"})


def annotations(reports: Iterable[Any], run: Run, root: Path) -> Iterator[str]:
    """Yield a GitHub command for each failure, missing baseline, bad waiver and baseline change.

    `reports` are pytest's failure reports, whose paths begin at `root`; GitHub expects paths from
    the repository's root.
    """
    repository = os.environ.get("GITHUB_WORKSPACE", root)
    for level, message, path, title, line in _list_annotations(reports, run):
        inside = os.path.relpath(root / path, repository)
        names = (path if inside.startswith(os.pardir) else inside, title)
        file, title = (make_printable(name).translate(_PROPERTY_ESCAPES) for name in names)
        at_line = "" if line is None else f",line={line}"
        message = make_printable(message).translate(_ESCAPES)
        yield f"::{level} file={file}{at_line},title={title}::{message}"


def _list_annotations(
    reports: Iterable[Any], run: Run
) -> Iterator[tuple[str, str, str, str, int | None]]:
    """Yield the level, message, path from pytest's root folder, title and line of each."""
    for report in reports:
        if report.nodeid in run.gate.selection.timed:
            path, line, name = report.location
            yield "error", report.longreprtext, path, name, (line or 0) + 1
    for result in run.gate.results:
        if result.is_missing:
            path, _, name = result.benchmark.partition("::")
            yield "warning", f"{result.outcome}: {result.comparison.reason}", path, name, None
    acceptance = run.gate.acceptance
    for sentence in run.gate.waiver_problems():
        yield "error", sentence, acceptance.waivers_file, "waiver", None
    for path, line in change_notes(acceptance):
        yield "warning", line, path, line.partition(":")[0], None


def add_step_summary(run: Run, path: Path) -> None:
    """Append the summary to GitHub's step summary; raise an InputError if that is impossible."""
    tables, lines = ["## netpipe"], list[str]()
    for part in summary_parts(run):
        if isinstance(part, str):
            lines.append(f"- {_escape(part)}")
        else:
            tables += _markdown(part)
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write("\n".join([*tables, *lines]) + "\n")
    except OSError as error:
        raise InputError(path, "GITHUB_STEP_SUMMARY", "be writable", error.strerror) from error


def _markdown(table: Table) -> Iterator[str]:
    headings = [str(column.header) for column in table.columns]
    rows = zip(*(column.cells for column in table.columns), strict=True)
    yield f"\n**{table.title}**\n"
    for cells in (headings, ["---"] * len(headings), *rows):
        yield f"| {' | '.join(_escape(str(cell)) for cell in cells)} |"
    yield ""


def _escape(text: str) -> str:
    return " ".join(make_printable(text).split()).translate(_MARKDOWN_ESCAPES)
