"""`netpipe generate` and `netpipe prepare`: data to run on."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from netpipe.cli.console import folder, notes, report_errors
from netpipe.cli.progress_display import ProgressBar
from netpipe.data.preparation.profiles import PROFILES

if TYPE_CHECKING:
    from netpipe.data.formats.index import Index


@click.command()
@click.option("--out", type=folder, required=True, help="The folder to make.")
@click.option(
    "--probes", type=int, help="How many probes measure; else as many as the profile has."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Another gives other data.")
@click.option(
    "--profile", type=click.Choice(list(PROFILES)), default="embedded",
    show_default=True, help="Many small probes and a few large; 24 of 170,000; all of about 25.",
)  # fmt: skip
@report_errors
def generate(out: Path, probes: int | None, seed: int, profile: str) -> None:
    """Make the embedded default data set, or one like it: parquet and prepared probe rows."""
    from netpipe.data.preparation.synthetic import generate as generate_data

    with ProgressBar("generating") as progress:
        index = generate_data(
            out, probes=probes, seed=seed, profile=PROFILES[profile], progress=progress
        )
    _print_summary(out, index)


@click.command()
@click.argument("sources", nargs=-1, type=folder, required=True)
@click.option("--out", type=folder, required=True, help="The folder to make.")
@click.option("--seed", type=int, default=0, show_default=True, help="Chooses the eval probes.")
@click.option("--shards", type=int, default=8, show_default=True, help="Files of the train split.")
@report_errors
def prepare(sources: tuple[Path, ...], out: Path, seed: int, shards: int) -> None:
    """Turn parquet measurements into probe rows, train and eval split by probe.

    Names that state a split, such as train-00000.parquet or eval/, decide it for every file;
    otherwise the seed does.

    A folder that holds inherited ArrayRecord files (layout 0) and no parquet is converted: its rows
    keep their order, in one file for each split.
    """
    from netpipe.data.preparation.convert import convert, is_inherited
    from netpipe.data.preparation.prepare import prepare as prepare_data

    with ProgressBar("preparing") as progress:
        if len(sources) == 1 and is_inherited(sources[0]):
            index = convert(sources[0], out, seed=seed, progress=progress)
        else:
            index = prepare_data(list(sources), out, seed=seed, shards=shards, progress=progress)
    _print_summary(out, index)


def _print_summary(out: Path, index: "Index") -> None:
    for name in ("train", "eval"):
        split = index.split(name)
        notes.print(
            f"{name}: {split.measurements:,} measurements of {split.probes:,} probes in "
            f"{split.rows:,} rows, {len(split.shards)} files"
        )
    notes.print(f"in {out}; run on them: pytest perf_tests --netpipe-data {out}", soft_wrap=True)
