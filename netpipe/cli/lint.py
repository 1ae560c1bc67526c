"""`netpipe lint`: report which calls of a Grain pipeline are in the wrong place."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from netpipe.cli.console import (
    FAILED,
    FINE,
    html_option,
    json_option,
    output,
    path_type,
    print_json,
    quiet_option,
    seconds_option,
    start_limit_option,
    target_type,
    write_html,
)
from netpipe.cli.progress_display import show_progress
from netpipe.files.whole_file import refuse_unwritable, write_whole
from netpipe.jobs.targets import Target
from netpipe.linting.lint_request import INTENTS


@click.command(epilog="\b\nExample:\n  netpipe lint perf/conftest.py:batches")
@click.argument("target", type=target_type)
@click.option(
    "--intent", type=click.Choice(INTENTS),
    help="Purpose of the pipeline (default: the one in pyproject.toml, or throughput).",
)  # fmt: skip
@click.option(
    "--prove", "proves", is_flag=True,
    help="Run the first elements with and without workers if the structure alone proves nothing.",
)  # fmt: skip
@click.option(
    "--try", "tries", is_flag=True, help="Measure the speed before and after each proposed fix."
)
@seconds_option(
    "--budget", 20.0, "Seconds for each of --prove and --try; each ends at most 20 s later."
)
@start_limit_option("Seconds for importing and building the pipeline.")
@click.option("--svg", type=path_type, metavar="FILE", help="Draw the pipeline into a file.")
@html_option
@quiet_option
@json_option
def lint(
    target: Target,
    intent: str | None,
    svg: Path | None,
    html: Path | None,
    as_json: bool,
    **experiments: Any,
) -> None:
    """Report which calls of a Grain pipeline are in the wrong place.

    TARGET is package.module:name or path/to/file.py:name, a callable that returns the pipeline.
    """
    from netpipe.jobs.parent import CHILD_COMMAND, run_session
    from netpipe.linting.linter import parse_report
    from netpipe.linting.settings import read_lint_settings

    refuse_unwritable(svg, "--svg")
    refuse_unwritable(html, "--html")
    settings = read_lint_settings(Path.cwd())
    request = replace(
        settings, targets={"loader": target}, intent=intent or settings.intent, **experiments
    )
    with show_progress(str(target)) as progress:
        document = run_session(CHILD_COMMAND, request, progress=progress)
    report = parse_report(document)
    if svg is not None:
        from netpipe.reporting.picture.drawing import draw_svg

        write_whole(svg, draw_svg(report), "--svg")
    write_html(document, html)
    if as_json:
        print_json(document)
    else:
        from netpipe.reporting.picture.terminal import print_report

        print_report(output, report)
        for trial in document["trials"]:
            output.print(f"tried: {trial['rule']}: {trial['message']}")
    has_errors = any(finding.severity == "error" for finding in report.findings)
    sys.exit(FAILED if has_errors else FINE)
