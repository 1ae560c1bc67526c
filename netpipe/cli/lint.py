"""`netpipe lint`: report which calls of a Grain pipeline are in the wrong place."""

import sys
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
    folder,
    notes,
    output,
    print_json,
    quiet_option,
    write_html,
)
from netpipe.cli.progress_display import make_printable, show_progress
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
    help="Run the first elements with and without workers where the structure proves nothing.",
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
    """Report which calls of a Grain pipeline are in the wrong place.

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
            f"{make_printable(target)}: ends within {request.limit_s:g} s, of which "
            f"{start_limit:g} s are for importing and building the pipeline",
            soft_wrap=True,
        )
    with show_progress(target, quiet=quiet) as progress:
        document = run_session(child_command(target), request, progress=progress)
    report = parse_report(document)
    if svg is not None:
        from netpipe.linting.picture.drawing import draw_svg

        write_whole(svg, draw_svg(report), "--svg")
    if html is not None:
        write_html(document, html)
    if as_json:
        print_json(document)
    else:
        _print_report(report, document["trials"])
    sys.exit(FAILED if report.errors else FINE)


def _print_report(report: "LintReport", trials: list[dict[str, Any]]) -> None:
    """Print the picture of the pipeline, then findings, silenced findings and trials."""
    from netpipe.linting.picture.terminal import TextPicture
    from netpipe.linting.rules.finding import sort_by_severity

    if report.graph.nodes:
        output.print(TextPicture(report, output.width))
    for finding in sort_by_severity(report.findings):
        output.print(bold_first(finding.severity, f" {finding.rule}: {finding.message}"))
        for field in ("proof", "cost", "fix"):
            if text := getattr(finding, field):
                indented = fill(
                    f"{field}: {text}", output.width, initial_indent="  ", subsequent_indent="  "
                )
                output.print(indented, soft_wrap=True)
    if not report.findings:
        output.print(f"no findings (intent: {report.intent})")
    for silenced in report.silenced:
        output.print(f"silenced: {silenced.finding.rule}: {silenced.reason}")
    for trial in trials:
        output.print(f"tried: {trial['rule']}: {trial['message']}")
