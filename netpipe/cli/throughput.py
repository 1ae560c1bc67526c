"""`netpipe throughput`: how fast this repository's pipeline loads, by batch size and workers."""

from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from netpipe.cli.console import (
    as_json,
    folder,
    notes,
    output,
    print_json,
    report_errors,
)
from netpipe.cli.progress_display import ProgressBar
from netpipe.cli.worker_choice import choose_workers, wants_choice
from netpipe.errors import InputError

if TYPE_CHECKING:
    from netpipe.throughput.report import Throughput
    from netpipe.throughput.sessions import Combination


@click.command()
@click.option(
    "--data", type=folder, metavar="DIR",
    help="Prepared data (default: what NETPIPE_DATA names, or the embedded data set, generated "
    "once into your cache folder).",
)  # fmt: skip
@click.option(
    "--config", type=folder, metavar="FILE",
    help="A TOML file whose [pipeline] is measured (default: sequences of 1024 tokens, batches of "
    "128, 2 workers).",
)  # fmt: skip
@click.option(
    "--batch-size", metavar="N,..", help="Sequences per batch; several values are compared."
)
@click.option(
    "--workers", metavar="N,..",
    help="Worker processes, 0 for none; several values are compared. auto: the smallest number "
    "that loads as fast as any, found by short trials.",
)  # fmt: skip
@click.option(
    "--memory-budget", metavar="BYTES",
    help="With --workers auto: the memory limit for all processes together, such as 4GB (default: "
    "half of this host's memory).",
)  # fmt: skip
@click.option("--rounds", type=int, default=5, show_default=True, help="Runs of each combination.")
@click.option(
    "--seconds", type=float, default=4.0, show_default=True,
    help="Seconds of steady state that each run measures.",
)  # fmt: skip
@click.option(
    "--against", metavar="TARGET", help="Another loader to compare with, in the same rounds."
)
@as_json
@report_errors
def throughput(
    data: Path | None,
    config: Path | None,
    batch_size: str | None,
    workers: str | None,
    memory_budget: str | None,
    rounds: int,
    seconds: float,
    against: str | None,
    as_json: bool,
) -> None:
    """Measure how fast this repository's pipeline loads without a training step.

    Padding does not count as tokens; CPU time is the sum over all processes. Lists (--batch-size
    256,512 --workers 0,1,2) give all combinations, run in turns, each time in a fresh process.
    TARGET is package.module:name or path/to/file.py:name, a callable that returns a loader. If its
    batches have no inputs_segmentation, every element of the first leaf counts as a token.
    """
    from netpipe.config import PipelineConfig, load_config
    from netpipe.data.preparation.synthetic import data_of_user
    from netpipe.throughput.sessions import combinations

    if rounds < 1:
        raise InputError("--rounds", "value", "be at least 1", rounds)
    if not 0 < seconds < inf:
        raise InputError("--seconds", "value", "be above 0, and finite", seconds)
    batch_sizes = _read_numbers("--batch-size", batch_size, minimum=1)
    automatic = wants_choice(workers, memory_budget, batch_sizes)
    counts = [] if automatic else _read_numbers("--workers", workers, minimum=0)
    pipeline = PipelineConfig(sequence_length=1024, batch_size=128, workers=2)
    pipeline = pipeline if config is None else load_config(config).pipeline
    selected = combinations(data or data_of_user(), pipeline, batch_sizes, counts)
    choice = None
    if automatic:
        choice = choose_workers(selected[0], memory_budget, seconds)
        selected = combinations(selected[0].data, selected[0].pipeline, [], [choice.workers])
    measured = _measure(selected, against, rounds, seconds)
    _print(replace(measured, choice=choice), as_json)


def _read_numbers(option: str, text: str | None, *, minimum: int) -> list[int]:
    """Return the comma-separated numbers of an option; an empty list if it is not given."""
    try:
        numbers = [] if text is None else [int(word) for word in text.split(",")]
    except ValueError:
        # Refused below, with the same message as a number that is too small.
        numbers = [minimum - 1]
    if any(number < minimum for number in numbers):
        constraint = f"be whole numbers of at least {minimum}, with commas between them"
        raise InputError(option, "value", constraint, repr(text))
    return numbers


def _measure(
    selected: "list[Combination]", against: str | None, rounds: int, seconds: float
) -> "Throughput":
    from netpipe.throughput.report import Against, Throughput
    from netpipe.throughput.sessions import Foreign, Subject, expected_s, measure_in_turns

    # The user's loader goes first: if it fails, the command fails early.
    foreign = [] if against is None else [Foreign(against)]
    subjects: list[Subject] = [*foreign, *selected]
    for combination in selected:
        notes.print(f"{combination.label}: {combination.memory_estimate}", soft_wrap=True)
    notes.print(
        f"rounds: {rounds}, runs in each: {len(subjects)}, every one a fresh process that measures "
        f"{seconds:g} s of steady state: about "
        f"{expected_s(len(subjects), rounds, seconds) / 60:.1f} minutes",
        soft_wrap=True,
    )
    with ProgressBar("measuring") as progress:

        def report_run(done: int, subject: Subject) -> None:
            progress.describe(f"round {done // len(subjects) + 1}, {subject.label}")
            progress(done, rounds * len(subjects))

        runs = measure_in_turns(subjects, rounds, seconds, report_run)
        progress.describe("measured")
        progress(rounds * len(subjects), rounds * len(subjects))
    other = None if against is None else Against(against, runs[0])
    return Throughput(selected[0].data, seconds, selected, runs[len(foreign) :], other)


def _print(measured: "Throughput", as_json: bool) -> None:
    from netpipe.device.detection import find_device, installed_versions
    from netpipe.device.host import this_host
    from netpipe.throughput.report import remarks, throughput_document, throughput_table

    if as_json:
        print_json(throughput_document(measured, find_device(), this_host(), installed_versions()))
        return
    output.print(throughput_table(measured))
    for line in remarks(measured):
        output.print(line, soft_wrap=True)
