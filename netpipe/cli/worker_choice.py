"""`netpipe throughput --workers auto`: try numbers of workers, and choose one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from netpipe.cli.console import notes
from netpipe.cli.progress_display import ProgressBar
from netpipe.errors import InputError

if TYPE_CHECKING:
    from netpipe.throughput.sessions import Combination
    from netpipe.throughput.worker_choice import Candidate, WorkerChoice


def wants_choice(
    workers: str | None, memory_budget: str | None, batch_sizes: Sequence[int]
) -> bool:
    """Return whether the number of workers is to be chosen.

    Raises:
        InputError: Options do not go together.
    """
    words = [] if workers is None else [word.strip() for word in workers.split(",")]
    if "auto" not in words:
        if memory_budget is not None:
            way_out = "Add --workers auto, or leave it out"
            found = "no --workers" if workers is None else f"--workers {workers}"
            raise InputError("--memory-budget", "option", "go with --workers auto", found, way_out)
        return False
    if len(words) > 1:
        way_out = "Leave auto out to compare the numbers, or leave them out to have one chosen"
        raise InputError("--workers", "value", "be auto alone, or numbers", repr(workers), way_out)
    if len(batch_sizes) > 1:
        sizes = repr(",".join(str(size) for size in batch_sizes))
        way_out = "Choose the workers for one size after the other"
        constraint = "be one size with --workers auto"
        raise InputError("--batch-size", "value", constraint, sizes, way_out)
    return True


def choose_workers(
    combination: "Combination", memory_budget: str | None, seconds: float
) -> "WorkerChoice":
    """Try numbers of workers, show the progress, and choose one.

    Args:
        combination: What to try, apart from its number of workers.
        memory_budget: What all processes together may take; None: half of this host's memory.
        seconds: How long the chosen one will be measured. A trial takes no longer, and at most 1 s.

    Raises:
        InputError: The budget cannot be read, or is below the smallest candidate.
        SessionError: No number of workers could be run.
    """
    from netpipe.device.host import this_host
    from netpipe.throughput.worker_choice import choose, parse_budget, worker_counts

    host, trial_s = this_host(), min(1.0, seconds)
    budget_bytes = host.memory_bytes // 2 if memory_budget is None else parse_budget(memory_budget)
    subjects = [
        replace(combination, pipeline=replace(combination.pipeline, workers=count))
        for count in worker_counts(host.cores)
    ]
    _announce(subjects, budget_bytes, trial_s)
    return choose(_try_all(subjects, budget_bytes, trial_s), budget_bytes, trial_s)


def _announce(subjects: "Sequence[Combination]", budget_bytes: int, trial_s: float) -> None:
    from netpipe.measuring.interleaving import MIN_ROUNDS
    from netpipe.results.units import format_megabytes
    from netpipe.throughput.sessions import expected_s
    from netpipe.throughput.worker_choice import MAX_ROUNDS

    minutes = expected_s(len(subjects), MIN_ROUNDS, trial_s) / 60
    lines = [
        *(f"{subject.label}: {subject.memory_estimate}" for subject in subjects),
        (
            f"memory budget: {format_megabytes(budget_bytes)} for all processes; what they take "
            "beside finished batches is measured in the trials"
        ),
        (
            f"trials: {len(subjects)} in each of {MIN_ROUNDS} rounds, of {MAX_ROUNDS} where those "
            f"leave it open, every one a fresh process that measures {trial_s:g} s of steady "
            f"state: about {minutes:.1f} minutes"
        ),
    ]
    for line in lines:
        notes.print(line, soft_wrap=True)


def _try_all(
    subjects: "Sequence[Combination]", budget_bytes: int, trial_s: float
) -> "list[Candidate]":
    from netpipe.measuring.interleaving import MIN_ROUNDS
    from netpipe.throughput.figures import Tally
    from netpipe.throughput.sessions import measure_once
    from netpipe.throughput.worker_choice import Candidate, try_candidates

    by_workers = {subject.pipeline.workers: subject for subject in subjects}
    untried = [Candidate(count, subject.finished_bytes) for count, subject in by_workers.items()]
    expected_runs, started_runs = MIN_ROUNDS * len(subjects), 0
    with ProgressBar("trials") as progress:

        def say(number: int, candidate: Candidate) -> None:
            if candidate.status == "open":
                progress.describe(f"trials, round {number}, {candidate.label}")
                progress(min(started_runs, expected_runs), expected_runs)
            else:
                reason = f"left out in round {number}: {candidate.reason}"
                notes.print(f"{candidate.label}, {reason}", soft_wrap=True)

        def measure(count: int) -> Tally:
            nonlocal started_runs
            started_runs += 1
            return measure_once(by_workers[count], trial_s)

        tried = try_candidates(untried, budget_bytes, measure, say)
        progress.describe("tried")
        progress(expected_runs, expected_runs)
    return tried
