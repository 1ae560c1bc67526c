"""`netpipe throughput`: the speed of a loader alone, by workers, and compared with another."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import count, product
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.cli.console import (
    notes,
    output,
    path_type,
    print_json,
    reading_options,
    target_type,
)
from netpipe.cli.progress_display import show_bar
from netpipe.errors import InputError
from netpipe.results.units import format_megabytes

if TYPE_CHECKING:
    from netpipe.jobs.targets import Target
    from netpipe.results.measurement import Device
    from netpipe.throughput.document import Throughput
    from netpipe.throughput.sessions import Subject
    from netpipe.throughput.worker_choice import Candidate, WorkerChoice


@click.command(epilog="\b\nExample:\n  netpipe throughput --workers 0,2")
@click.option(
    "--loader", type=target_type, metavar="TARGET",
    help="The loader to measure (default: this repository's pipeline).",
)  # fmt: skip
@click.option(
    "--data", type=path_type, metavar="DIR",
    help="Prepared data (default: NETPIPE_DATA, or the embedded data set, generated "
    "once into your cache folder).",
)  # fmt: skip
@click.option(
    "--config", type=path_type, metavar="FILE",
    help="A TOML file whose [pipeline] is measured (default: sequences of 1024 tokens, batches of "
    "128, 2 workers).",
)  # fmt: skip
@click.option(
    "--batch-size", metavar="N,..", help="Sequences per batch; several values are compared."
)
@click.option(
    "--workers", metavar="N,..",
    help="Worker processes, 0 for none; several values are compared. auto finds the "
    "smallest number that loads as fast as any, by short trials.",
)  # fmt: skip
@click.option(
    "--memory-budget", metavar="SIZE",
    help="With --workers auto: the memory limit for all processes together, such as 4GB (default: "
    "half of this host's memory).",
)  # fmt: skip
@click.option(
    "--rounds", type=click.IntRange(1), default=5, show_default=True,
    help="Runs of each combination.",
)  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(0, inf, min_open=True, max_open=True), default=4.0,
    show_default=True,
    help="Seconds of steady state in each run.",
)  # fmt: skip
@click.option(
    "--against", type=target_type, metavar="TARGET",
    help="Another loader to compare with; both run at the same time and take turns.",
)  # fmt: skip
@click.option(
    "--same-batches", type=click.IntRange(0), default=0, metavar="N",
    help="With --against: the first N batches of both loaders must have the same contents.",
)  # fmt: skip
@reading_options
def throughput(
    loader: "Target | None",
    data: Path | None,
    config: Path | None,
    batch_size: str | None,
    workers: str | None,
    memory_budget: str | None,
    rounds: int,
    seconds: float,
    against: "Target | None",
    same_batches: int,
    as_json: bool,
    **limits: Any,
) -> None:
    """Measure the speed of a loader without a training step.

    Padding does not count as tokens; CPU time is the sum over all processes. Lists (--batch-size
    256,512 --workers 0,1,2) give all combinations, run in turns, each time in a fresh process.
    TARGET is package.module:name or path/to/file.py:name, a callable that returns a loader. With
    --workers it is called with the parameter `workers` if it has one; otherwise the Grain pipeline
    is changed. Without a segmentation or a mask, examples are counted instead of tokens. With
    --loader and --against the batches of both must have the same shapes and dtypes.
    """
    from netpipe.device.detection import find_device

    if same_batches and against is None:
        raise InputError("--same-batches", "option", "go with --against", "no --against")
    batch_sizes = _read_numbers("--batch-size", batch_size, minimum=1)
    automatic = _wants_choice(workers, memory_budget, batch_sizes)
    counts = [] if automatic else _read_numbers("--workers", workers, minimum=0)
    if loader is None:
        selected = _our_combinations(data, config, batch_sizes, counts)
    else:
        ours = {"--data": data, "--config": config, "--batch-size": batch_size}
        selected = _combinations_of(loader, ours, counts)
    selected = [replace(each, limits=limits) for each in selected]
    # A missing device is found before minutes of measuring.
    device = find_device() if as_json else None
    choice = None
    if automatic:
        choice = _choose_workers(selected[0], memory_budget, seconds)
        selected = [replace(selected[0], workers=choice.workers)]
    measured = _measure(selected, against, rounds, seconds, same_batches)
    _print(replace(measured, choice=choice), device)


def _our_combinations(
    data: Path | None, config: Path | None, batch_sizes: list[int], workers: list[int]
) -> "Sequence[Subject]":
    """Return this pipeline, on endless data, with each batch size and number of workers.

    Empty lists stand for the pipeline's own settings.
    """
    from netpipe.jobs.targets import Target
    from netpipe.throughput.sessions import Subject
    from netpipe.workload.config import PipelineConfig, load_config
    from netpipe.workload.preparation.synthetic import data_of_user

    default = PipelineConfig(sequence_length=1024, batch_size=128, workers=2)
    pipeline = load_config(config).pipeline if config else default
    data, subjects = data or data_of_user(), []
    choices = product(batch_sizes or [pipeline.batch_size], workers or [pipeline.workers])
    for size, number in dict.fromkeys(choices):
        endless = asdict(replace(pipeline, batch_size=size, epochs=None))
        target = Target("netpipe.workload.pipeline", "build_from_settings", (str(data), endless))
        subjects.append(Subject(target, number, data, size, pipeline.sequence_length))
    return subjects


def _combinations_of(
    loader: "Target", ours: Mapping[str, object], workers: list[int]
) -> "Sequence[Subject]":
    from netpipe.throughput.sessions import Subject

    for option, value in ours.items():
        if value is not None:
            constraint, way_out = "be absent with --loader", "The target decides on its data"
            raise InputError(option, "option", constraint, repr(str(value)), way_out)
    return [Subject(loader, count) for count in dict.fromkeys(workers)] or [Subject(loader)]


def _read_numbers(option: str, text: str | None, *, minimum: int) -> list[int]:
    """Return an option's comma-separated numbers; an empty list if the option is not given."""
    try:
        numbers = [] if text is None else [int(word) for word in text.split(",")]
    except ValueError:
        # This is refused below, with the message for a number that is too small.
        numbers = [minimum - 1]
    if any(number < minimum for number in numbers):
        constraint = f"be whole numbers of at least {minimum}, with commas between them"
        constraint += ", or auto alone" * (option == "--workers")
        raise InputError(option, "value", constraint, repr(text))
    return numbers


def _wants_choice(workers: str | None, memory_budget: str | None, batch_sizes: list[int]) -> bool:
    is_automatic = (workers or "").strip() == "auto"
    if memory_budget is not None and not is_automatic:
        way_out = "Add --workers auto, or leave it out"
        found = "no --workers" if workers is None else f"--workers {workers}"
        raise InputError("--memory-budget", "option", "go with --workers auto", found, way_out)
    if is_automatic and len(batch_sizes) > 1:
        sizes, constraint = ",".join(map(str, batch_sizes)), "be one size with --workers auto"
        way_out = "Choose the workers for one size after the other"
        raise InputError("--batch-size", "value", constraint, repr(sizes), way_out)
    return is_automatic


def _choose_workers(
    subject: "Subject", memory_budget: str | None, seconds: float
) -> "WorkerChoice":
    """Try several numbers of workers, in runs of at most 1 s each, and return the choice."""
    from netpipe.device.host import this_host
    from netpipe.measuring.interleaving import MIN_ROUNDS
    from netpipe.throughput import worker_choice
    from netpipe.throughput.sessions import expected_s, measure_once

    host, trial_s = this_host(), min(1.0, seconds)
    budget_bytes = host.memory_bytes // 2
    if memory_budget is not None:
        budget_bytes = worker_choice.parse_budget(memory_budget)
    subjects = {n: replace(subject, workers=n) for n in worker_choice.worker_counts(host.cores)}
    expected_runs, started_runs = MIN_ROUNDS * len(subjects), count()
    notes.print(
        f"memory budget: {format_megabytes(budget_bytes)} for all processes of a trial\n"
        f"trials: {len(subjects)} in each of {MIN_ROUNDS} rounds, or up to "
        f"{worker_choice.MAX_ROUNDS} until the choice is clear; each is a fresh process that "
        f"measures {trial_s:g} s of steady state: about "
        f"{expected_s(expected_runs, trial_s) / 60:.1f} minutes or more",
        soft_wrap=True,
    )
    with show_bar("trials") as progress:

        def report_progress(number: int, candidate: "Candidate") -> None:
            if candidate.status == "open":
                description = f"trials, round {number}, {candidate.label}"
                progress(min(next(started_runs), expected_runs), expected_runs, description)
            else:
                reason = f"left out in round {number}: {candidate.reason}"
                notes.print(f"{candidate.label}, {reason}", soft_wrap=True)

        tried = worker_choice.try_candidates(
            list(map(worker_choice.Candidate, subjects)),
            budget_bytes,
            lambda workers: measure_once(subjects[workers], trial_s),
            report_progress,
        )
        progress(expected_runs, expected_runs, "tried")
    return worker_choice.choose(tried, budget_bytes, trial_s)


def _measure(
    selected: "Sequence[Subject]", against: "Target | None", rounds: int, seconds: float, same: int
) -> "Throughput":
    from netpipe.throughput.document import Against, Throughput
    from netpipe.throughput.sessions import Subject, expected_s, measure_duets, measure_in_turns

    sessions = rounds * len(selected) * (1 if against is None else 2)
    notes.print(
        f"rounds: {rounds}, fresh processes in each: {sessions // rounds}, every one measured for "
        f"{seconds:g} s of steady state: about {expected_s(sessions, seconds) / 60:.1f} minutes",
        soft_wrap=True,
    )
    with show_bar("measuring") as progress:

        def report_progress(done: int, subject: Subject) -> None:
            beside = "" if against is None else f" and {against}"
            doing = f"round {done // len(selected) + 1}, {subject.label}{beside}"
            progress(done, rounds * len(selected), doing)

        other = None
        if against is None:
            runs = measure_in_turns(selected, rounds, seconds, report_progress)
        else:
            beside = Subject(against, limits=selected[0].limits)
            pairs = measure_duets(selected, beside, rounds, seconds, report_progress, same)
            runs = [tuple(run for run, _ in each) for each in pairs]
            other = Against(str(against), [tuple(run for _, run in each) for each in pairs])
        progress(rounds * len(selected), rounds * len(selected), "measured")
    return Throughput(selected[0].data, seconds, selected, runs, other)


def _print(measured: "Throughput", device: "Device | None") -> None:
    from netpipe.device.detection import installed_versions
    from netpipe.device.host import this_host
    from netpipe.reporting.throughput_table import remarks, throughput_table
    from netpipe.throughput.document import throughput_document

    if device:
        print_json(throughput_document(measured, device, this_host(), installed_versions()))
        return
    output.print(throughput_table(measured))
    for line in remarks(measured):
        output.print(line, soft_wrap=True)
