"""`netpipe lint`: what stands in the wrong place."""

import sys
from typing import Any

import click

from netpipe.cli.console import FAILED, FINE, as_json, bold_first, clear_errors, output, print_json


@click.command()
@click.argument("target")
@click.option(
    "--intent", type=click.Choice(["throughput", "reproducible"]), default="throughput",
    show_default=True, help="What the order is held to.",
)  # fmt: skip
@as_json
@clear_errors
def lint(target: str, intent: str, as_json: bool) -> None:
    """Read a Grain pipeline and say what stands in the wrong place.

    TARGET is package.module:name or path/to/file.py:name, a callable that returns the pipeline.
    """
    from netpipe.harness.session import SessionRequest, child_command, linted

    document = linted(child_command(target, None, None), SessionRequest("lint", intent=intent))
    if as_json:
        print_json(document)
    else:
        _print_lint(document)
    errors = any(one["severity"] == "error" for one in document["findings"])
    sys.exit(FAILED if errors else FINE)


def _print_lint(document: dict[str, Any]) -> None:
    for one in document["findings"]:
        output.print(bold_first(one["severity"], f" {one['rule']}: {one['message']}"))
        for word in ("cost", "fix"):
            if one[word]:
                output.print(f"  {word}: {one[word]}")
    if not document["findings"]:
        output.print(f"nothing stands wrong, for {document['intent']}")
