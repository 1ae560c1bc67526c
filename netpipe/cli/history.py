"""`netpipe history`: results over commits, and where they changed."""

import json
from pathlib import Path

import click

from netpipe.cli.console import notes, output, path_type, write_html
from netpipe.errors import InputError
from netpipe.files.whole_file import refuse_unwritable, write_whole
from netpipe.git import GitError, git
from netpipe.results.units import format_count


@click.group(epilog="\b\nExample:\n  netpipe history page history.jsonl --html history.html")
def history() -> None:
    """Keep the results of each commit in a file, and find the commits that changed them."""


@history.command(epilog="\b\nExample:\n  netpipe history add run.json history.jsonl")
@click.argument("result", type=path_type)
@click.argument("file", type=path_type)
@click.option(
    "--commit", default="HEAD", show_default=True, metavar="REF", help="The measured commit."
)
@click.option(
    "--benchmark-json", "benchmark", type=path_type, metavar="FILE",
    help="Also write the results in the format of github-action-benchmark (customSmallerIsBetter).",
)  # fmt: skip
def add(result: Path, file: Path, commit: str, benchmark: Path | None) -> None:
    """Append the results of a run to FILE, which is made if there is none.

    RESULT is a file that --netpipe-json wrote.
    """
    from netpipe.history.entries import append_entries, find_metric, make_entries
    from netpipe.reporting.rendering import read_document
    from netpipe.results.documents import check_schema

    refuse_unwritable(benchmark, "--benchmark-json")
    document = read_document(result)
    way_out = "pytest perf_tests --netpipe-json FILE writes such a document"
    check_schema(document["schema"], ("netpipe.run/1",), result, way_out=way_out)
    try:
        words = ("log", "-1", "--no-show-signature", "--format=%H %cI", commit, "--")
        sha, date = git(Path(), *words).split()
        is_changed = commit == "HEAD" and git(Path(), "status", "--porcelain", "-uno")
    except (GitError, ValueError) as error:
        raise InputError("netpipe history add", "--commit", "be a commit here", error) from error
    entries = make_entries(document, sha, date, result)
    append_entries(file, entries, "FILE")
    if benchmark is not None:
        rows = [
            {"name": f"{test} {name}{on}", "unit": find_metric(name).unit or "x", "value": value}
            for entry in entries
            for on in (f" on {entry.device}" * bool(entry.device),)
            for test, name, value in entry.list_values()
            if find_metric(name).lower_is_better
        ]
        write_whole(benchmark, json.dumps(rows, indent=1) + "\n", "--benchmark-json")
    notes.print(f"added: {sha[:12]} to {file}")
    if is_changed:
        notes.print("the working tree has changes that are not in this commit")


@history.command(epilog="\b\nExample:\n  netpipe history page history.jsonl --html history.html")
@click.argument("file", type=path_type)
@click.option(
    "--html", "path", type=path_type, required=True, metavar="FILE", help="File to write."
)
def page(file: Path, path: Path) -> None:
    """Make one HTML page of FILE, with a chart of each metric, and print what changed."""
    from netpipe.history.change_points import MIN_COMMITS
    from netpipe.history.entries import Entry, list_series, read_entries

    entries = read_entries(file)
    series = list_series(entries)
    if not series:
        raise InputError(file, "file", "hold a result", "none", "netpipe history add appends some")
    document = {"schema": Entry.SCHEMA, "entries": [entry.to_document() for entry in entries]}
    write_html(document, path)
    for each in series:
        for change in each.changes:
            output.print(f"{each.place}: {each.describe(*change)}", soft_wrap=True)
    if not any(each.changes for each in series):
        longest = max(len(each.values) for each in series)
        few = f"; {MIN_COMMITS} commits are needed to see one" * (longest < MIN_COMMITS)
        output.print(f"no change in {format_count(longest, 'commit')}{few}", soft_wrap=True)
    notes.print(f"written: {path}")
