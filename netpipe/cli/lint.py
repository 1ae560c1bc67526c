"""`netpipe lint`: report which calls of a Grain pipeline stand in the wrong place."""

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import click

from netpipe.cli.console import (
    FAILED,
    FINE,
    as_html,
    as_json,
    bold_first,
    command_line,
    folder,
    notes,
    output,
    print_json,
    report_errors,
)
from netpipe.cli.progress_display import printable, quiet_option, show_progress
from netpipe.linting.request import INTENTS
from netpipe.whole_file import refuse_unwritable, write_whole

if TYPE_CHECKING:
    from netpipe.linting.linter import LintReport


@click.command()
@click.argument("target")
@click.option(
    "--intent", type=click.Choice(INTENTS),
    help="What to judge the pipeline for (default: what pyproject.toml says, or throughput).",
)  # fmt: skip
@click.option(
    "--prove", "proves", is_flag=True,
    help="Run the first elements with and without workers where the structure decides nothing.",
)  # fmt: skip
@click.option(
    "--try", "tries", is_flag=True, help="Measure the speed before and after each proposed fix."
)
@click.option(
    "--budget", type=float, default=20.0, show_default=True,
    help="Seconds for --prove and for --try each; each ends at most 20 s later.",
)  # fmt: skip
@click.option(
    "--start-limit", type=float, default=600.0, show_default=True,
    help="Seconds for importing and building the pipeline.",
)  # fmt: skip
@click.option("--svg", type=folder, metavar="FILE", help="Draw the pipeline into a file.")
@as_html
@quiet_option
@as_json
@report_errors
def lint(
    target: str,
    intent: str | None,
    proves: bool,
    tries: bool,
    budget: float,
    start_limit: float,
    svg: Path | None,
    html: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Report which calls of a Grain pipeline stand in the wrong place.

    TARGET is package.module:name or path/to/file.py:name, a callable that returns the pipeline.
    """
    from netpipe.linting.child import child_command
    from netpipe.linting.linter import parse_report
    from netpipe.linting.request import LintRequest
    from netpipe.linting.settings import read_lint_settings
    from netpipe.session.parent import run_session

    if html is not None:
        refuse_unwritable(html, "--html")
    settings = read_lint_settings(Path.cwd())
    request = LintRequest(
        budget_s=budget,
        start_limit_s=start_limit,
        intent=intent or settings.intent,
        silences=settings.silences,
        proves=proves,
        tries=tries,
    )
    if (proves or tries) and not quiet:
        notes.print(
            f"{printable(target)}: ends within {request.limit_s:g} s, of which {start_limit:g} s"
            " are for importing and building the pipeline",
            soft_wrap=True,
        )
    with show_progress(target, quiet=quiet) as progress:
        document = run_session(child_command(target), request, progress=progress)
    report = parse_report(document)
    if svg is not None:
        _draw(report, svg)
    if html is not None:
        _write_page(document, html)
    if as_json:
        print_json(document)
    else:
        _print_report(report, document["trials"])
    sys.exit(FAILED if report.errors else FINE)


def _draw(report: "LintReport", path: Path) -> None:
    from netpipe.linting.picture.drawing import draw_svg

    write_whole(path, draw_svg(report), "--svg")


def _write_page(document: dict[str, Any], path: Path) -> None:
    from netpipe.page.rendering import write_page

    write_page([document], path, "--html", repeat=command_line())


def _print_report(report: "LintReport", trials: list[dict[str, Any]]) -> None:
    from netpipe.linting.picture.terminal import TextPicture
    from netpipe.linting.rules.finding import sort_by_severity

    if report.graph.nodes:
        output.print(TextPicture(report, output.width))
    for one in sort_by_severity(report.findings):
        output.print(bold_first(one.severity, f" {one.rule}: {one.message}"))
        for word in ("proof", "cost", "fix"):
            if text := getattr(one, word):
                output.print(_indented(f"{word}: {text}"), soft_wrap=True)
    if not report.findings:
        output.print(f"no findings (intent: {report.intent})")
    for line in _further(report, trials):
        output.print(line)


def _indented(text: str) -> str:
    return fill(text, output.width, initial_indent="  ", subsequent_indent="  ")


def _further(report: "LintReport", trials: list[dict[str, Any]]) -> Iterator[str]:
    for silenced in report.silenced:
        yield f"silenced: {silenced.finding.rule}: {silenced.reason}"
    for trial in trials:
        yield f"tried: {trial['rule']}: {trial['message']}"
