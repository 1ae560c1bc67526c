"""`netpipe report`: make one HTML page from results."""

from pathlib import Path

import click

from netpipe.cli.console import command_line, notes, path_type
from netpipe.files.whole_file import refuse_unwritable, write_whole


@click.command(
    epilog="\b\nExample:\n"
    "  netpipe lint perf/conftest.py:batches --json | netpipe report /dev/stdin --html lint.html"
)
@click.argument("results", nargs=-1, required=True, metavar="RESULT...", type=path_type)
@click.option(
    "--html", "path", type=path_type, required=True, metavar="FILE", help="File to write."
)
def report(results: tuple[Path, ...], path: Path) -> None:
    """Make one self-contained HTML page from results.

    RESULT is a JSON document from measure, lint, diagnose, work, throughput or --netpipe-json, or a
    log of netpipe.watch.
    """
    from netpipe.reporting.rendering import read_document, render_page

    refuse_unwritable(path, "--html")
    names = [result.name for result in results] if len(results) > 1 else []
    if len(set(names)) < len(set(results)) and names:
        names = list(map(str, results))
    documents = list(map(read_document, results))
    write_whole(path, render_page(documents, names=names, repeat=command_line()), "--html")
    notes.print(f"written: {path}")
