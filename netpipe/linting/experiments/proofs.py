"""What the structure leaves open, tried on the pipeline's own first batches.

Two rules say what may happen to a pipeline in workers: `worker-count-changes-order` and
`batch-in-workers-loses-data`. Here its batches are read without workers and with some, and
compared by their contents.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from math import inf
from typing import Final, Literal

from netpipe.clock import Clock
from netpipe.linting.experiments.loader_runs import Run, read_batches
from netpipe.linting.experiments.variants import (
    CannotRebuildError,
    Variant,
    build_variant,
    initializes_workers,
)
from netpipe.linting.graph.nodes import Graph
from netpipe.linting.linter import LintReport
from netpipe.linting.rules.finding import LintFinding, Severity
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.bounded_calls import call_within, summarize_error

_STARTS_S: Final = 10.0
ORDER: Final = "worker-count-changes-order"
LOSS: Final = "batch-in-workers-loses-data"


@dataclass(frozen=True)
class Proof:
    """What runs showed: what a rule says does happen, or does not, or it stays open.

    Attributes:
        outcome: Which of them; "not seen": not as far as the data were read.
        message: The same in words, with what was seen.
    """

    outcome: Literal["proven", "refuted", "not seen", "not decided"]
    message: str


Read = Callable[[LoaderFactory, float, float], Run]
"""Reads a loader until it has given so many batches or so many seconds are over."""


def prove(
    loader: LoaderFactory,
    report: LintReport,
    clock: Clock,
    limit_s: float = 20.0,
    most: int = 64,
    read: Read | None = None,
) -> LintReport:
    """Try the findings that only the data can decide.

    Workers are started: Grain must have been allowed to. All iterators are closed at the end; a
    worker that hangs is killed.

    Args:
        loader: Makes the pipeline; called anew for each number of workers.
        report: What the rules found in it.
        clock: Seconds.
        limit_s: Seconds that the reading may take in all, besides the starts of workers, for
            which there are 10 more at most.
        most: Batches to compare of data that do not come to their end in time.
        read: What reads a loader; by default `read_batches` on the clock.

    Returns:
        The report, its findings of the two rules with their proof; refuted ones as remarks, and
        a proven order as an error where the intent is "reproducible".
    """
    rules = {finding.rule for finding in report.findings}.intersection((ORDER, LOSS))
    if not rules:
        return report
    try:
        # With 0 workers that function would not run, and the data could be others.
        base = 1 if call_within(lambda: initializes_workers(loader), limit_s) else 0
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        proofs: Mapping[str, Proof] = dict.fromkeys(rules, _unbuilt(error))
    else:
        runs = _Runs(loader, read or partial(read_batches, clock=clock), clock, limit_s, base)
        proofs = runs.proofs(_counts(report.graph, base), most, rules)
    found = tuple(
        _with_proof(finding, proofs[finding.rule], report.intent)
        if finding.rule in proofs
        else finding
        for finding in report.findings
    )
    return replace(report, findings=found)


def _unbuilt(error: Exception) -> Proof:
    failed = "" if isinstance(error, CannotRebuildError) else "the loader failed: "
    return _undecided(f"{failed}{summarize_error(error)}")


def _with_proof(finding: LintFinding, proof: Proof, intent: str) -> LintFinding:
    severity: Severity = finding.severity
    if proof.outcome == "refuted":
        severity = "info"
    elif proof.outcome == "proven" and finding.rule == ORDER and intent == "reproducible":
        severity = "error"
    return replace(finding, proof=proof.message, severity=severity)


def _counts(graph: Graph, base: int) -> Mapping[str, Variant]:
    """Return the numbers of workers to try, by what they are called: the configured one, and 2."""
    numbers = {node.parameters["num_workers"] for node in graph.of_kind("ProcessPrefetch")}
    configured = {f"{_workers(*numbers)}": Variant()} if numbers - {base} else {}
    return {**configured, "2 workers": Variant(workers=2)}


def _workers(*numbers: object) -> str:
    text = " and ".join(map(str, sorted(numbers, key=str)))
    return "1 worker" if text == "1" else f"{text} workers"


class _Runs:
    """The runs on one loader, which share the time that there is."""

    def __init__(
        self, loader: LoaderFactory, read: Read, clock: Clock, limit_s: float, base: int
    ) -> None:
        self._loader = loader
        self._read = read
        self._clock = clock
        self._ends_s = clock() + limit_s
        self._latest_s = self._ends_s + _STARTS_S
        self._limit_s = limit_s
        self._base = base

    def proofs(
        self, counts: Mapping[str, Variant], most: int, rules: set[str]
    ) -> Mapping[str, Proof]:
        """Read without workers, without again, and with each number; decide by what came."""
        left = len(counts) + 2
        alone = self._run(Variant(workers=self._base), inf, left)
        enough = inf if alone.whole else most
        again = self._run(Variant(workers=self._base), enough, left - 1)
        others: dict[str, Run] = {}
        found: dict[str, Proof] = {}
        for number, (label, variant) in enumerate(counts.items()):
            others[label] = self._run(variant, enough, left - 2 - number)
            proven = {rule: one for rule, one in found.items() if one.outcome == "proven"}
            found = {
                ORDER: reordered(alone, again, others, most, self._limit_s, self._base),
                LOSS: lost(alone, again, others, self._limit_s, self._base),
                **proven,  # another number of workers cannot take that back
            }
            if others[label].hung or all(found[rule].outcome == "proven" for rule in rules):
                break
        return {rule: found[rule] for rule in rules}

    def _run(self, variant: Variant, enough: float, left: int) -> Run:
        if self._clock() >= self._latest_s:
            return Run((), 0, False, skipped=True)
        limit_s = max(0.0, self._ends_s - self._clock()) / left
        run = self._read(lambda: build_variant(self._loader, variant), enough, limit_s)
        self._ends_s = min(self._ends_s + run.start_s, self._latest_s)
        return run


# ---- What runs show


def reordered(
    alone: Run, again: Run, others: Mapping[str, Run], most: int, limit_s: float, base: int = 0
) -> Proof:
    """Decide whether the number of workers changes the batches.

    Args:
        alone: A run without workers.
        again: Another one: where the two differ, workers are not to blame.
        others: Runs with workers, by how many.
        most: Batches that are compared where the data do not end.
        limit_s: Seconds that all runs had.
        base: Workers of the runs without: 1 where those have something to run as they start.
    """
    if failed := _failure(alone, others, base):
        return failed
    if alone.same_until(again) < inf:
        return _undecided(
            f"two runs with {_workers(base)} already differ, in batch"
            f" {alone.same_until(again) + 1:g}: something is drawn without a seed"
        )
    trusted = inf if again.whole else len(again.digests)
    for label, run in others.items():
        if (place := alone.same_until(run)) < trusted:
            return Proof("proven", f"proven: {_difference(alone, run, int(place), label, base)}")
    runs = (alone, again, *others.values())
    compared = min(len(run.digests) for run in runs)
    if all(run.whole for run in runs):
        return Proof("refuted", f"refuted on all {_batches(compared)} with {_listed(others)}")
    if hung := _hanging(alone, again, others, base):
        return hung
    if compared >= most:
        seen = f"not seen in the first {_batches(compared)} with {_listed(others)}"
        return Proof("not seen", seen)
    return _undecided(f"{_batches(compared)} in {limit_s:g} s, all the same")


def lost(alone: Run, again: Run, others: Mapping[str, Run], limit_s: float, base: int = 0) -> Proof:
    """Decide whether elements are lost in workers; the arguments are those of `reordered`."""
    if failed := _failure(alone, others, base):
        return failed
    if alone.hung:
        return _hung(_workers(base), alone)
    if not alone.whole:
        return _undecided(f"the data did not come to its end in {limit_s:g} s")
    if alone.elements != again.elements:
        return _undecided(
            f"two runs with {_workers(base)} gave {alone.elements} and {again.elements} elements"
        )
    for label, run in others.items():
        if run.whole and run.elements < alone.elements:
            come = f"{run.elements} elements come with {label}, {alone.elements} with {base}"
            return Proof("proven", f"proven: {come}")
    if hung := _hanging(alone, again, others, base):
        return hung
    if not all(run.whole for run in others.values()):
        return _undecided(f"the data did not come to its end in {limit_s:g} s with workers")
    for label, run in others.items():
        if run.elements > alone.elements or len(run.digests) < len(alone.digests):
            return _undecided(
                f"{run.elements} elements in {_batches(len(run.digests))} come with {label},"
                f" {alone.elements} in {_batches(len(alone.digests))} with {base}"
            )
    come = f"all {alone.elements} elements come with {_listed(others)}, as with {base}"
    return Proof("refuted", f"refuted: {come}")


def _failure(alone: Run, others: Mapping[str, Run], base: int) -> Proof | None:
    for label, run in chain([(_workers(base), alone)], others.items()):
        if run.skipped:
            return _undecided(f"skipped for lack of time: the loader was not read with {label}")
        if run.failure:
            return _undecided(f"with {label} the loader failed: {run.failure}")
    return None


def _hanging(alone: Run, again: Run, others: Mapping[str, Run], base: int) -> Proof | None:
    runs = [(_workers(base), alone), (_workers(base), again), *others.items()]
    return next((_hung(label, run) for label, run in runs if run.hung), None)


def _hung(label: str, run: Run) -> Proof:
    return _undecided(
        f"with {label} the loader hung, or was too slow for the limit, after"
        f" {_batches(len(run.digests))}"
    )


def _undecided(why: str) -> Proof:
    return Proof("not decided", f"not decided: {why}")


def _difference(alone: Run, run: Run, place: int, label: str, base: int) -> str:
    if place < min(len(alone.digests), len(run.digests)):
        return f"batch {place + 1} of {len(alone.digests)} differs with {label}"
    most = len(alone.digests) if alone.whole else f"more than {place}"
    came = len(run.digests) if run.whole else f"more than {place}"
    return f"{came} batches come with {label}, {most} with {base}"


def _batches(number: int) -> str:
    return "1 batch" if number == 1 else f"{number} batches"


def _listed(labels: Iterable[str]) -> str:
    return " and with ".join(labels)
