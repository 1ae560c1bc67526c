"""`netpipe diagnose`: find the slow stage, its resource, and the changes that would help."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.cli.console import FINE, notes, output, print_json, write_html
from netpipe.cli.measure import build_requests, exit_code, measure_options
from netpipe.cli.progress_display import show_progress
from netpipe.jobs.targets import Target, name_targets
from netpipe.results.units import format_seconds

if TYPE_CHECKING:
    from netpipe.diagnosis.diagnosis import Diagnosis


@click.command(epilog="\b\nExample:\n  netpipe diagnose --loader perf/conftest.py:batches")
@measure_options(
    "Seconds to measure; the run takes at most twice that plus 30 s, besides starting the loader.",
    of_maxtext="dataset",
)
def diagnose(
    loader: Target,
    step: Target | None,
    loop: Target | None,
    accelerator: str,
    html: Path | None,
    trace: Path | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Find the slow stage of a loader, the resource that limits it, and a fix.

    One fix is tried in the same run. If neither a step nor an accelerator is given, the loader is
    diagnosed alone. TARGET is package.module:name or path/to/file.py:name, a callable without
    arguments.
    """
    from netpipe.diagnosis.diagnose import run_diagnosis, typical_s
    from netpipe.linting.settings import read_lint_settings

    settings["targets"] = name_targets(loader=loader, step=step, loop=loop)
    linting = read_lint_settings(Path.cwd())
    (request,) = build_requests([accelerator], html, trace, settings)
    notes.print(f"this usually takes {format_seconds(typical_s(request))}")
    with show_progress("diagnosing") as progress:
        found = run_diagnosis(request, linting, progress)
    if as_json:
        print_json(found.to_document())
    else:
        _print(found)
    if html is not None:
        write_html(found.to_document(), html)
    sys.exit(FINE if found.measurement is None else exit_code(found.measurement))


def _print(found: "Diagnosis") -> None:
    from netpipe.reporting.diagnosis_tables import closing, tables

    output.print(f"{found.sentence}\n", style="bold", soft_wrap=True)
    for table in tables(found.findings):
        output.print(table.for_terminal())
    output.print(closing(found.findings, found.measurement), soft_wrap=True)
    for finding in found.lint["findings"]:
        line = f"{finding['severity']} {finding['rule']}: {finding['message']}"
        output.print(line, soft_wrap=True)
