"""`netpipe report`: one HTML page from results."""

from pathlib import Path

import click

from netpipe.cli.console import command_line, folder, notes


@click.command()
@click.argument("results", nargs=-1, required=True, metavar="RESULT...", type=folder)
@click.option("--html", "path", type=folder, required=True, metavar="FILE", help="The page.")
def report(results: tuple[Path, ...], path: Path) -> None:
    """Make one self-contained HTML page from results.

    RESULT is a JSON document from measure, lint, diagnose, throughput or --netpipe-json.
    """
    from netpipe.page.reading import read_document
    from netpipe.page.rendering import write_page
    from netpipe.whole_file import refuse_unwritable

    refuse_unwritable(path, "--html")
    names = [result.name for result in results] if len(results) > 1 else []
    documents = list(map(read_document, results))
    write_page(documents, path, "--html", names=names, repeat=command_line())
    notes.print(f"written: {path}")
