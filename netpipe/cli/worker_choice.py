"""`netpipe throughput --workers auto`: trials, and the number of workers that they speak for."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from netpipe.cli.console import notes
from netpipe.cli.progress_display import ProgressBar
from netpipe.errors import InputError

if TYPE_CHECKING:
    from netpipe.throughput.candidates import Candidate
    from netpipe.throughput.choice import WorkerChoice
    from netpipe.throughput.subjects import Combination

_AUTO: Final = "auto"
_TRIAL_S: Final = 1.0
_SHARE_OF_HOST: Final = 0.5


def wants_choice(
    workers: str | None, memory_budget: str | None, batch_sizes: Sequence[int]
) -> bool:
    """Return whether the number of workers is to be chosen.

    Raises:
        InputError: Options are given that do not go together.
    """
    words = [] if workers is None else [word.strip() for word in workers.split(",")]
    if _AUTO not in words:
        if memory_budget is not None:
            way_out = "Add --workers auto, or leave it out"
            found = "no --workers" if workers is None else f"--workers {workers}"
            raise InputError("--memory-budget", "option", "go with --workers auto", found, way_out)
        return False
    if len(words) > 1:
        way_out = "Leave auto out to compare the numbers, or leave them out to have one chosen"
        raise InputError("--workers", "value", "be auto alone, or numbers", repr(workers), way_out)
    if len(batch_sizes) > 1:
        sizes = ",".join(str(size) for size in batch_sizes)
        way_out = "Choose the workers for one size after the other"
        raise InputError(
            "--batch-size", "value", "be one size with --workers auto", repr(sizes), way_out
        )
    return True


def choose_workers(
    combination: "Combination", memory_budget: str | None, seconds: float
) -> "WorkerChoice":
    """Try numbers of workers, tell of it as it goes, and choose one.

    Args:
        combination: What is tried, but for the workers in it.
        memory_budget: What all processes together may take; half of this host's memory for None.
        seconds: How long the chosen one will be measured; no trial takes longer.

    Raises:
        InputError: The budget cannot be read, or is below the least candidate.
        SessionError: No number of workers could be run.
    """
    from netpipe.device.host import this_host
    from netpipe.throughput.budget import parse_budget
    from netpipe.throughput.candidates import worker_counts
    from netpipe.throughput.choice import choose

    host, trial_s = this_host(), min(_TRIAL_S, seconds)
    budget_bytes = int(_SHARE_OF_HOST * host.memory_bytes)
    if memory_budget is not None:
        budget_bytes = parse_budget(memory_budget)
    subjects = {
        count: replace(combination, pipeline=replace(combination.pipeline, workers=count))
        for count in worker_counts(host.cores)
    }
    _announce(subjects.values(), budget_bytes, trial_s)
    return choose(_tried(subjects, budget_bytes, trial_s), budget_bytes, trial_s)


def _announce(subjects: "Collection[Combination]", budget_bytes: int, trial_s: float) -> None:
    from netpipe.throughput.formatting import megabytes
    from netpipe.throughput.trials import MOST_ROUNDS, ROUNDS
    from netpipe.throughput.turns import expected_s

    for one in subjects:
        notes.print(f"{one.label}: {one.memory_estimate}", soft_wrap=True)
    notes.print(
        f"memory budget: {megabytes(budget_bytes)} for all processes; what they take beside "
        "finished batches is measured in the trials",
        soft_wrap=True,
    )
    minutes = expected_s(len(subjects), ROUNDS, trial_s) / 60
    notes.print(
        f"trials: {len(subjects)} in each of {ROUNDS} rounds, of {MOST_ROUNDS} where those leave "
        f"it open, every one a fresh process that measures {trial_s:g} s of steady state: about "
        f"{minutes:.1f} minutes",
        soft_wrap=True,
    )


def _tried(
    subjects: "Mapping[int, Combination]", budget_bytes: int, trial_s: float
) -> "list[Candidate]":
    from netpipe.throughput.candidates import Candidate
    from netpipe.throughput.explanation import times
    from netpipe.throughput.trials import ROUNDS, tried
    from netpipe.throughput.turns import measure_once

    untried = [Candidate(count, one.finished_bytes) for count, one in subjects.items()]
    order, runs = list(subjects), ROUNDS * len(subjects)
    with ProgressBar("trials") as progress:

        def say(number: int, one: Candidate) -> None:
            if one.fate == "open":
                progress.describe(f"trials, round {number}, {times(one.workers)}")
                progress(min((number - 1) * len(order) + order.index(one.workers), runs), runs)
            else:
                told = f"{times(one.workers)}, left out in round {number}: {one.reason}"
                notes.print(told, soft_wrap=True)

        found = tried(
            untried, budget_bytes, lambda count: measure_once(subjects[count], trial_s), say
        )
        progress.describe("tried")
        progress(runs, runs)
    return found
