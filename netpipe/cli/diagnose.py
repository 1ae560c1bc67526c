"""`netpipe diagnose`: which stage is slow, which resource binds it, what would help."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netpipe.cli.console import (
    FINE,
    as_html,
    as_json,
    clear_errors,
    command_line,
    folder,
    output,
    print_json,
)
from netpipe.cli.live import live, quietly
from netpipe.cli.measure import exit_code

if TYPE_CHECKING:
    from netpipe.diagnosis.diagnosis import Diagnosis


@click.command()
@click.option("--loader", required=True, metavar="TARGET", help="Makes the loader.")
@click.option("--step", metavar="TARGET", help="Makes (state, step).")
@click.option("--loop", metavar="TARGET", help="Your training loop(batches, state, step).")
@click.option(
    "--accelerator", default="auto", show_default=True,
    help="auto, emulated:36ms, emulated:8xh100; @25GB/s adds a copy to the device.",
)  # fmt: skip
@click.option(
    "--flops-per-step", type=float, help="FLOPs of a step, for what each accelerator would need."
)
@click.option(
    "--mfu", type=float, default=0.4, show_default=True,
    help="The part of its peak that an accelerator reaches.",
)  # fmt: skip
@click.option(
    "--budget", type=float, default=60.0, show_default=True,
    help="Seconds to measure; starting processes and the least rounds may take as long again.",
)  # fmt: skip
@click.option(
    "--batch-limit", type=float, default=10.0, show_default=True,
    help="A loader that gives no batch for so many seconds hangs.",
)  # fmt: skip
@as_html
@click.option(
    "--trace", type=folder, metavar="DIR",
    help="Keep a profiler's trace of some real steps in a folder, for ui.perfetto.dev.",
)  # fmt: skip
@quietly
@as_json
@clear_errors
def diagnose(
    loader: str,
    step: str | None,
    loop: str | None,
    accelerator: str,
    flops_per_step: float | None,
    mfu: float,
    budget: float,
    batch_limit: float,
    html: Path | None,
    trace: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Find out which stage of a loader is slow, which resource binds it, and what would help.

    One predicted fix is tried in the same run. Without a step and an accelerator the loader is
    looked into by itself. TARGET is package.module:name or path/to/file.py:name, a callable without
    arguments.
    """
    from netpipe.diagnosis.diagnosing import Asked, diagnosed
    from netpipe.harness.lint_settings import lint_settings
    from netpipe.harness.session import SessionRequest
    from netpipe.whole_file import refuse_unwritable, writable_folder

    if html is not None:
        refuse_unwritable(html, "--html")
    settings = lint_settings(Path.cwd())
    request = SessionRequest(
        "diagnose",
        accelerator=accelerator,
        budget_s=budget,
        batch_limit_s=batch_limit,
        flops_per_step=flops_per_step,
        mfu=mfu,
        trace=str(writable_folder(trace, "--trace")) if trace else "",
    )
    asked = Asked(loader, step, loop, request)
    with live("diagnosing", quiet=quiet) as progress:
        found = diagnosed(asked, settings.silences, settings.intent, progress)
    if as_json:
        print_json(found.to_document())
    else:
        _print(found)
    if html is not None:
        _write_page(found, html)
    sys.exit(FINE if found.measurement is None else exit_code(found.measurement))


def _write_page(found: "Diagnosis", path: Path) -> None:
    from netpipe.page.writing import write_page

    write_page([found.to_document()], path, "--html", repeat=command_line())


def _print(found: "Diagnosis") -> None:
    from netpipe.diagnosis.report import closing, tables

    output.print(found.sentence, style="bold", soft_wrap=True)
    for table in tables(found):
        output.print(table)
    output.print(closing(found.findings), soft_wrap=True)
    for finding in found.lint["findings"]:
        output.print(
            f"{finding['severity']} {finding['rule']}: {finding['message']}", soft_wrap=True
        )
