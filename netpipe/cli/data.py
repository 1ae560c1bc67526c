"""`netpipe generate`, `prepare` and `inspect`: commands that write or describe data."""

import os
import shlex
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.cli.console import (
    bold_first,
    json_option,
    notes,
    output,
    path_type,
    place_type,
    print_json,
)
from netpipe.cli.progress_display import show_rows
from netpipe.errors import InputError
from netpipe.workload.preparation.profiles import PROFILES

if TYPE_CHECKING:
    from netpipe.workload.formats.index import Index
    from netpipe.workload.preparation.tasks import Runner

_IN_MEMORY = ("mock", "py::fsspec+memory")  # file systems of pyarrow and fsspec


@click.command(epilog="\b\nExample:\n  netpipe generate --out data")
@click.option("--out", type=path_type, required=True, help="The folder to create.")
@click.option(
    "--probes", type=click.IntRange(2), help="Number of probes (default: the profile's number)."
)
@click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True,
    help="Seed of the random data.",
)  # fmt: skip
@click.option(
    "--profile", type=click.Choice(list(PROFILES)), default="embedded", show_default=True,
    help="embedded: many short histories and a few long ones; big-rows: 24 probes with 170,000 "
    "measurements each; small-rows: 20,000 probes with about 25 measurements each.",
)  # fmt: skip
def generate(out: Path, probes: int | None, seed: int, profile: str) -> None:
    """Generate a synthetic data set: parquet files, and the prepared rows made from them."""
    from netpipe.workload.preparation.synthetic import generate as generate_data

    with show_rows("generating") as progress:
        index = generate_data(
            out, probes=probes, seed=seed, profile=PROFILES[profile], progress=progress
        )
    _print_summary(out, index)


@click.command(
    epilog="\b\nExample:\n  netpipe generate --out a && netpipe prepare a/parquet --out b"
)
@click.argument("sources", nargs=-1, type=place_type, required=True)
@click.option("--out", type=place_type, required=True, help="The folder to create.")
@click.option(
    "--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True,
    help="Seed that chooses the probes of the eval split.",
)  # fmt: skip
@click.option(
    "--shards", type=click.IntRange(1, 10_000), default=8, show_default=True,
    help="Number of files in the train split.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1), default=None,
    help="Number of processes (default: the usable cores).",
)  # fmt: skip
@click.option(
    "--drop-invalid",
    is_flag=True,
    help="Leave out rows with an invalid value, and count them; otherwise the first is an error.",
)
@click.option(
    "--scratch",
    type=path_type,
    help="Folder for unfinished work (default: beside a local output).",
)
@click.option(
    "--runner", type=click.Choice(["local", "ray"]), default="local", show_default=True,
    help="Work in local processes, or on a Ray cluster that shares the sources and --scratch.",
)  # fmt: skip
@click.option(
    "--address", metavar="HOST:PORT",
    help="The Ray cluster (default: RAY_ADDRESS, or the one on this machine).",
)  # fmt: skip
def prepare(
    sources: tuple[Path | str, ...], out: Path | str, seed: int, shards: int, workers: int | None,
    drop_invalid: bool, scratch: Path | None, runner: str, address: str | None,
) -> None:  # fmt: skip
    """Convert parquet measurements to prepared rows, each probe either in train or in eval.

    Sources and the output are paths, or URIs such as s3://bucket/folder. If it is killed, the same
    command resumes.

    If the names of files or folders state the split, such as train-00000.parquet or eval/, they
    decide; otherwise the seed does.
    """
    from netpipe.workload.formats.places import find_place
    from netpipe.workload.preparation.prepare import prepare as prepare_data

    if find_place(out).filesystem.type_name in _IN_MEMORY:
        found, way_out = "the memory of the command", "Choose a folder or a bucket"
        raise InputError(out, "--out", "be a place that stays", found, way_out)
    on_ray = _find_ray(runner, address, workers)
    with show_rows("preparing") as progress:
        index = prepare_data(
            sources, out, seed=seed, shards=shards, drops_invalid=drop_invalid,
            workers=workers or len(os.sched_getaffinity(0)), scratch=scratch,
            runner=on_ray, progress=progress,
        )  # fmt: skip
    _print_summary(out, index)


def _find_ray(runner: str, address: str | None, workers: int | None) -> "Runner | None":
    """Return the Ray runner, or None for the local one; refuse options of the other runner."""
    option, value = ("--workers", workers) if runner == "ray" else ("--address", address)
    if value is not None:
        other = "local" if runner == "ray" else "ray"
        raise InputError(option, "--runner", f"be {other} with it", runner)
    if runner == "local":
        return None
    if find_spec("ray") is None:
        way_out = "Install it: pip install 'netpipe[ray]'"
        raise InputError("--runner ray", "package ray", "be installed", "none", way_out)
    from netpipe.workload.preparation.ray_runner import run_on_ray

    # "auto" is the cluster in RAY_ADDRESS, or else one with a node on this machine.
    return partial(run_on_ray, address or "auto")


@click.command(epilog="\b\nExample:\n  netpipe generate --out a && netpipe inspect a")
@click.argument("path", type=path_type)
@json_option
def inspect(path: Path, as_json: bool) -> None:
    """Describe a file or folder of data: format, counts, spans, a decoded row."""
    from netpipe.workload.inspection import inspect as inspect_data

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


def _print_summary(out: Path | str, index: "Index") -> None:
    """Print the size of each split, and the command to measure with the new data."""
    for name in ("train", "eval"):
        split = index.split(name)
        notes.print(
            f"{name}: {split.measurements:,} measurements of {split.probes:,} probes in "
            f"{split.rows:,} rows, {len(split.shards)} files"
        )
    for dropped in index.dropped:
        notes.print(
            f"dropped: {dropped.rows:,} rows, whose {dropped.column} must {dropped.constraint}; "
            f"the first is row {dropped.row:,} of {dropped.file}: {dropped.value}",
            soft_wrap=True,
        )
    from netpipe.workload.formats.places import find_place

    place = find_place(out)
    command = shlex.join(["pytest", "perf_tests", f"--netpipe-data={place}"])
    use = (
        f"measure with them: {command}"
        if place.is_local
        else "copy them to a local folder to read them"
    )
    notes.print(f"in {place}; {use}", soft_wrap=True)
