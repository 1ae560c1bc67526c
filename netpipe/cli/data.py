"""`netpipe generate`, `prepare` and `inspect`: commands that make data, or look into them."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.cli.console import bold_first, json_option, notes, output, path_type, print_json
from netpipe.cli.progress_display import show_bar
from netpipe.data.preparation.profiles import PROFILES

if TYPE_CHECKING:
    from netpipe.data.formats.index import Index


@click.command(epilog="\b\nExample:\n  netpipe generate --out data")
@click.option("--out", type=path_type, required=True, help="The folder to create.")
@click.option("--probes", type=int, help="Number of probes (default: the profile's number).")
@click.option(
    "--seed", type=click.IntRange(max=2**64 - 1), default=0, show_default=True,
    help="Seed of the random data.",
)  # fmt: skip
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


@click.command(
    epilog="\b\nExample:\n  netpipe generate --out a && netpipe prepare a/parquet --out b"
)
@click.argument("sources", nargs=-1, type=path_type, required=True)
@click.option("--out", type=path_type, required=True, help="The folder to create.")
@click.option(
    "--seed", type=click.IntRange(max=2**64 - 1), default=0, show_default=True,
    help="Seed that chooses the probes of the eval split.",
)  # fmt: skip
@click.option(
    "--shards", type=click.IntRange(max=10_000), default=8, show_default=True,
    help="Number of files in the train split.",
)  # fmt: skip
def prepare(sources: tuple[Path, ...], out: Path, seed: int, shards: int) -> None:
    """Convert parquet measurements to prepared rows, each probe either in train or in eval.

    If the names of files or folders state the split, such as train-00000.parquet or eval/, they
    decide; otherwise the seed does.

    A folder that holds ArrayRecord files of the older layout 0, and no parquet files, is converted
    to the newest layout: the rows keep their order, in one file for each split.
    """
    from netpipe.data.preparation.convert import convert, is_inherited
    from netpipe.data.preparation.prepare import prepare as prepare_data

    with show_bar("preparing") as progress:
        if len(sources) == 1 and is_inherited(sources[0]):
            index = convert(sources[0], out, seed=seed, progress=progress)
        else:
            index = prepare_data(list(sources), out, seed=seed, shards=shards, progress=progress)
    _print_summary(out, index)


@click.command(epilog="\b\nExample:\n  netpipe generate --out a && netpipe inspect a")
@click.argument("path", type=path_type)
@json_option
def inspect(path: Path, as_json: bool) -> None:
    """Print what is in a file or a folder of data: format, counts, spans, a decoded row."""
    from netpipe.data.inspection import inspect as inspect_data

    found = inspect_data(path)
    if as_json:
        print_json(found)
        return
    counts = {name: found[name] for name in ("files", "bytes", "rows", "measurements")}
    summary = bold_first(f"{found['path']}, {found['format']}", f": {_format_counts(counts)}")
    output.print(summary, soft_wrap=True)
    for name, split in found["splits"].items():
        output.print(bold_first(name, f": {_format_counts(split)}"))
    read, example = found["read"], found["example"]
    shares = f"{read['failed_fraction']:.1%} failed, {read['ipv6_fraction']:.1%} IPv6"
    output.print(bold_first("read", f": {_format_extent(read)}; {shares}"), soft_wrap=True)
    output.print(bold_first(f"a row, probe {example['probe']}", f": {_format_extent(example)}"))
    for shown in example["shown"]:
        rtt = "failed" if shown["rtt_ms"] is None else f"{shown['rtt_ms']:g} ms"
        output.print(f"  {shown['time']}  {shown['source']} -> {shown['destination']}  {rtt}")


def _format_counts(counts: Mapping[str, int | None]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count is not None)


def _format_extent(part: Mapping[str, Any]) -> str:
    counts = _format_counts({name: part.get(name) for name in ("rows", "measurements")})
    return f"{counts}, {part['first']} to {part['last']}"


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
