"""`python -m perf_tests.studies.endurance`: pull the pipeline for minutes and report growth."""

import sys
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from netpipe.device.host import this_host
from netpipe.errors import NetpipeError
from netpipe.files.whole_file import refuse_unwritable, write_whole
from netpipe.workload.config import PipelineConfig
from netpipe.workload.pipeline import build
from netpipe.workload.preparation.synthetic import data_of_user
from perf_tests.studies.endurance.drawing import draw_svg
from perf_tests.studies.endurance.watching import Held, compute_growths, watch

_LOOKS = 120
_notes = Console(stderr=True, highlight=False, soft_wrap=True)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), default=10.0,
    show_default=True, help="Minutes to pull the pipeline.",
)  # fmt: skip
@click.option("--workers", type=click.IntRange(min=0), default=2, show_default=True)
@click.option("--batch-size", type=click.IntRange(min=1), default=128, show_default=True)
@click.option(
    "--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw the plot into this file."
)
def main(minutes: float, workers: int, batch_size: int, svg: Path | None) -> None:
    """Pull this repository's pipeline without pauses; exit with 1 if memory or files grew.

    It reads the default data set, or the one that NETPIPE_DATA names.
    """
    if svg is not None:
        refuse_unwritable(svg, "--svg")
    config = PipelineConfig(sequence_length=1024, batch_size=batch_size, workers=workers)
    try:
        held = _pull(config, 60 * minutes)
    except NetpipeError as error:
        raise click.ClickException(str(error)) from error
    found = compute_growths(held)
    for growth in found:
        grew = "flat" if growth.is_flat else f"GREW by more than {growth.most:,.0f}"
        click.echo(f"{growth.name:20} {growth.before:>14,.0f} -> {growth.after:>14,.0f}  {grew}")
    if svg is not None:
        title = f"{batch_size} x 1024, {workers} workers, {this_host().cpu}"
        write_whole(svg, draw_svg(held, title), "--svg")
    sys.exit(0 if all(growth.is_flat for growth in found) else 1)


def _pull(config: PipelineConfig, seconds: float) -> list[Held]:
    held = []
    for moment in watch(build(data_of_user(), config), seconds, seconds / _LOOKS):
        held.append(moment)
        _notes.print(str(asdict(moment)))
    return held


if __name__ == "__main__":
    main()
