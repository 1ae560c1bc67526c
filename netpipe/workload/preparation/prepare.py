"""Prepared folders: parquet measurements as probe rows in ArrayRecord shards, split by probe.

Tasks do the work (`tasks.py`), in two phases (`phases.py`):

1. `plan.py` cuts the sources into slices of about 1.3 million rows. For each, a `SliceTask` checks
   the values and writes a run: the measurements sorted by bucket, probe and time (`runs.py`).
2. A `ShardTask` merges some buckets from all runs, one bucket at a time, and writes one shard of
   each split. An input of at most one slice has a single such task, which deals the rows to all
   shards round-robin.

The parent joins the shards, and saves the index last. Tasks share nothing but the sources and the
work folder (`work_folder.py`), and their files depend on the plan alone: the result is the same,
byte for byte, for any number of workers and any runner, and after a kill.

DuckDB's out-of-core sort was tried for both phases. The sort alone takes as much CPU time as all
of the above, and it can neither resume nor run on a cluster.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from netpipe.errors import InputError
from netpipe.workload.formats.dropped import join_dropped
from netpipe.workload.formats.index import Index
from netpipe.workload.formats.parquet import MergedProbesWarning
from netpipe.workload.formats.places import Place, find_place
from netpipe.workload.preparation.output_folder import remote_folder, whole_folder
from netpipe.workload.preparation.phases import ShardTask, SliceResult, SliceTask
from netpipe.workload.preparation.plan import Plan, make_plan
from netpipe.workload.preparation.processes import run_in_processes
from netpipe.workload.preparation.rows_writer import WrittenRows, save_rows
from netpipe.workload.preparation.runs import Run
from netpipe.workload.preparation.split import EVAL_FRACTION, EvalChoice
from netpipe.workload.preparation.tasks import Runner, run_all, run_here
from netpipe.workload.preparation.work_folder import find_scratch, work_folder

Progress = Callable[[int, int, str], None]
"""Called with the work done, the total, and the phase; each measurement counts once per phase."""


@dataclass(frozen=True)
class Settings:
    """The settings that the rows depend on."""

    seed: int = 0
    shards: int = 8
    eval_fraction: float = EVAL_FRACTION
    drops_invalid: bool = False


def prepare(
    sources: Sequence[Path | str],
    out: Path | str,
    *,
    seed: int = 0,
    shards: int = 8,
    eval_fraction: float = EVAL_FRACTION,
    drops_invalid: bool = False,
    workers: int = 1,
    runner: Runner | None = None,
    scratch: Path | None = None,
    progress: Progress | None = None,
) -> Index:
    """Turn parquet measurements into a folder that a pipeline can read, and return its index.

    docs/preparing.md describes the settings. The sources are parquet files, or folders of them;
    they and `out` are paths or URIs. The `runner` does the work of a large input, by default in
    `workers` processes. Every process must reach the sources and, under the same path, the work
    folder in `scratch`.

    Raises:
        InputError: A source, a value in it, or `out` is invalid. `out` is then unchanged.
        NetpipeError: A process of a runner was killed.
    """
    settings = Settings(seed, shards, eval_fraction, drops_invalid)
    plan = make_plan(sources, vars(settings), shards)
    if plan.is_small:
        runner = run_here
    elif runner is None:
        runner = partial(run_in_processes, workers) if workers > 1 else run_here
    place = find_place(out)
    scratch = scratch or find_scratch(place)
    local_files = [Path(file.place.path) for file in plan.files if file.place.is_local]
    folder = remote_folder(place, scratch)
    if place.is_local:
        folder = whole_folder(Path(place.name), local_files)
    # The work is kept until the output is in place.
    with (
        work_folder(scratch, place, plan.key, is_kept=not plan.is_small) as work,
        folder as building,
    ):
        return prepare_plan(plan, settings, work, building, runner, progress)


def prepare_plan(
    plan: Plan, settings: Settings, work: Place, building: Path, runner: Runner,
    progress: Progress | None,
) -> Index:  # fmt: skip
    """Carry out a plan: make runs and shards in `work`, and the data set in `building`."""
    reading = [
        SliceTask(
            work, f"slice-{part.number:06d}", part.rows, part, plan.buckets, settings.seed,
            settings.drops_invalid,
        )
        for part in plan.slices
    ]  # fmt: skip
    total, done = 2 * plan.rows, 0

    def advance(phase: str, measurements: int) -> None:
        nonlocal done
        done = min(done + measurements, total)
        if progress:
            progress(done, total, phase)

    read: list[SliceResult] = run_all(reading, runner, partial(advance, "reading"))
    writing = _shard_tasks(plan, settings, work, read)
    written: list[WrittenRows] = run_all(writing, runner, partial(advance, "writing"))
    if merged := next((each.merged for each in read if each.merged), ""):
        warnings.warn(merged, MergedProbesWarning, stacklevel=3)
    return save_rows(
        written, work, building, settings.seed, settings.eval_fraction,
        join_dropped(each for result in read for each in result.dropped),
    )  # fmt: skip


def _shard_tasks(
    plan: Plan, settings: Settings, work: Place, read: Sequence[SliceResult]
) -> list[ShardTask]:
    extremes = [each for result in read for each in result.extremes]
    if not extremes:
        raise InputError("sources", "rows", "have valid values", "none: all were dropped")
    choice = None
    if not any(part.split for part in plan.slices):
        choice = EvalChoice.among(extremes, settings.seed, settings.eval_fraction)
    runs = tuple(
        (part, Run(work / name, plan.buckets))
        for part, result in zip(plan.slices, read, strict=True)
        for name in result.runs
    )
    files: Mapping[str, int] = {"train": 1, "eval": 1}
    count = settings.shards
    if plan.is_small:
        eval_files = max(1, round(settings.shards * settings.eval_fraction))
        files, count = {"train": settings.shards, "eval": eval_files}, 1
    return [
        ShardTask(
            # Rounded so that the rows of all tasks add up to the total.
            work, f"shard-{number:06d}", (plan.rows + number) // count, tuple(buckets.tolist()),
            files, runs, choice,
        )
        for number, buckets in enumerate(np.array_split(np.arange(plan.buckets), count))
    ]  # fmt: skip
