"""`netpipe generate` and `netpipe prepare`: commands that create a prepared data set."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netpipe.cli.console import notes, path_type
from netpipe.cli.progress_display import show_bar
from netpipe.data.preparation.profiles import PROFILES

if TYPE_CHECKING:
    from netpipe.data.formats.index import Index


@click.command()
@click.option("--out", type=path_type, required=True, help="The folder to create.")
@click.option("--probes", type=int, help="Number of probes (default: the profile's number).")
@click.option(
    "--seed",
    type=click.IntRange(max=2**64 - 1),
    default=0,
    show_default=True,
    help="Seed of the random data.",
)
@click.option(
    "--profile", type=click.Choice(list(PROFILES)), default="embedded", show_default=True,
    help="embedded: many short histories and a few long ones; big-rows: 24 probes with 170,000 "
    "measurements each; small-rows: 20,000 probes with about 25 measurements each.",
)  # fmt: skip
def generate(out: Path, probes: int | None, seed: int, profile: str) -> None:
    """Generate a synthetic data set: parquet files, and the prepared rows made from them."""
    from netpipe.data.preparation.synthetic import generate as generate_data

    with show_bar("generating") as progress:
        index = generate_data(
            out, probes=probes, seed=seed, profile=PROFILES[profile], progress=progress
        )
    _print_summary(out, index)


@click.command()
@click.argument("sources", nargs=-1, type=path_type, required=True)
@click.option("--out", type=path_type, required=True, help="The folder to create.")
@click.option(
    "--seed", type=click.IntRange(max=2**64 - 1), default=0, show_default=True,
    help="Seed that chooses the probes of the eval split.",
)  # fmt: skip
@click.option(
    "--shards",
    type=click.IntRange(max=10_000),
    default=8,
    show_default=True,
    help="Number of files in the train split.",
)
def prepare(sources: tuple[Path, ...], out: Path, seed: int, shards: int) -> None:
    """Convert parquet measurements to prepared rows, each probe either in train or in eval.

    If the names of files or folders state the split, such as train-00000.parquet or eval/, they
    decide; otherwise the seed does.

    A folder that holds ArrayRecord files of the older layout 0, and no parquet files, is converted
    to the newest layout: the rows keep their order, in one file for each split.
    """
    from netpipe.data.preparation.prepare import convert, is_inherited
    from netpipe.data.preparation.prepare import prepare as prepare_data

    with show_bar("preparing") as progress:
        if len(sources) == 1 and is_inherited(sources[0]):
            index = convert(sources[0], out, seed=seed, progress=progress)
        else:
            index = prepare_data(list(sources), out, seed=seed, shards=shards, progress=progress)
    _print_summary(out, index)


def _print_summary(out: Path, index: "Index") -> None:
    """Print the size of each split, and the command that measures with the new data."""
    for name in ("train", "eval"):
        split = index.split(name)
        notes.print(
            f"{name}: {split.measurements:,} measurements of {split.probes:,} probes in "
            f"{split.rows:,} rows, {len(split.shards)} files"
        )
    command = shlex.join(["pytest", "perf_tests", f"--netpipe-data={out}"])
    notes.print(f"in {out}; measure with them: {command}", soft_wrap=True)
