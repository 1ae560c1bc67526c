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

from netpipe.harness.clock import Clock
from netpipe.harness.graph.nodes import Graph
from netpipe.harness.ordering import LintReport
from netpipe.harness.pull import LoaderFactory
from netpipe.harness.rules.finding import LintFinding
from netpipe.harness.trying.reading import Run, read_batches
from netpipe.harness.trying.variants import Variant, build

ORDER: Final = "worker-count-changes-order"
LOSS: Final = "batch-in-workers-loses-data"


@dataclass(frozen=True)
class Proof:
    """What runs showed: what a rule says does happen, or does not, or it stays open.

    Attributes:
        outcome: Which of the three.
        message: The same in words, with what was seen.
    """

    outcome: Literal["proven", "refuted", "not decided"]
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
        limit_s: Seconds that the reading may take in all.
        most: Batches to compare the order of; data that may be lost is read to its end.
        read: What reads a loader; by default `read_batches` on the clock.

    Returns:
        The report, its findings of the two rules with their proof; refuted ones as remarks.
    """
    rules = {finding.rule for finding in report.findings}.intersection((ORDER, LOSS))
    if not rules:
        return report
    runs = _Runs(loader, read or partial(read_batches, clock=clock), clock, limit_s)
    proofs = runs.proofs(_counts(report.graph), most, rules)
    found = tuple(_with_proof(finding, proofs) for finding in report.findings)
    return replace(report, findings=found)


def _with_proof(finding: LintFinding, proofs: Mapping[str, Proof]) -> LintFinding:
    proof = proofs.get(finding.rule)
    if proof is None:
        return finding
    severity = "info" if proof.outcome == "refuted" else finding.severity
    return replace(finding, proof=proof.message, severity=severity)


def _counts(graph: Graph) -> Mapping[str, Variant]:
    """Return the numbers of workers to try, by what they are called: the configured one, and 2."""
    numbers = {node.parameters["num_workers"] for node in graph.of_kind("ProcessPrefetch")}
    configured = {f"{_workers(*numbers)}": Variant()} if numbers else {}
    return {**configured, "2 workers": Variant(workers=2)}


def _workers(*numbers: object) -> str:
    text = " and ".join(map(str, sorted(numbers, key=str)))
    return "1 worker" if text == "1" else f"{text} workers"


class _Runs:
    """The runs on one loader, which share the time that there is."""

    def __init__(self, loader: LoaderFactory, read: Read, clock: Clock, limit_s: float) -> None:
        self._loader = loader
        self._read = read
        self._clock = clock
        self._ends_s = clock() + limit_s
        self._limit_s = limit_s

    def proofs(
        self, counts: Mapping[str, Variant], most: int, rules: set[str]
    ) -> Mapping[str, Proof]:
        """Read with no workers, with none again, and with each number; decide by what came."""
        left = len(counts) + 2
        alone = self._run(Variant(workers=0), inf if LOSS in rules else most, left)
        enough = inf if LOSS in rules and alone.whole else most
        again = self._run(Variant(workers=0), enough, left - 1)
        others: dict[str, Run] = {}
        for number, (label, variant) in enumerate(counts.items()):
            others[label] = self._run(variant, enough, left - 2 - number)
            found = {
                ORDER: reordered(alone, again, others, most, self._limit_s),
                LOSS: lost(alone, again, others, self._limit_s),
            }
            if all(found[rule].outcome == "proven" for rule in rules):
                break
        return {rule: found[rule] for rule in rules}

    def _run(self, variant: Variant, enough: float, left: int) -> Run:
        limit_s = max(0.0, self._ends_s - self._clock()) / left
        return self._read(lambda: build(self._loader, variant), enough, limit_s)


# ---- What runs show


def reordered(
    alone: Run, again: Run, others: Mapping[str, Run], most: int, limit_s: float
) -> Proof:
    """Decide whether the number of workers changes the batches.

    Args:
        alone: A run without workers.
        again: Another one: where the two differ, workers are not to blame.
        others: Runs with workers, by how many.
        most: Batches that are to be equal for it to be refuted, where there are so many.
        limit_s: Seconds that all runs had.
    """
    if failed := _failure(alone, others):
        return failed
    if alone.same_until(again) < inf:
        return _undecided(
            "two runs with 0 workers already differ, in batch"
            f" {alone.same_until(again) + 1:g}: something is drawn without a seed"
        )
    trusted = inf if again.whole else len(again.digests)
    for label, run in others.items():
        if (place := alone.same_until(run)) < trusted:
            return Proof("proven", f"proven: {_difference(alone, run, int(place), label)}")
    runs = (alone, again, *others.values())
    compared = min(len(run.digests) for run in runs)
    if all(run.whole for run in runs):
        return Proof("refuted", f"refuted on all {_batches(compared)} with {_listed(others)}")
    if compared >= most:
        return Proof("refuted", f"refuted on the first {_batches(most)} with {_listed(others)}")
    return _undecided(f"{_batches(compared)} in {limit_s:g} s, all the same")


def lost(alone: Run, again: Run, others: Mapping[str, Run], limit_s: float) -> Proof:
    """Decide whether elements are lost in workers; the arguments are those of `reordered`."""
    if failed := _failure(alone, others):
        return failed
    if not alone.whole:
        return _undecided(f"the data did not come to its end in {limit_s:g} s")
    if alone.elements != again.elements:
        return _undecided(
            f"two runs with 0 workers gave {alone.elements} and {again.elements} elements"
        )
    for label, run in others.items():
        if run.whole and run.elements < alone.elements:
            come = f"{run.elements} elements come with {label}, {alone.elements} with 0"
            return Proof("proven", f"proven: {come}")
    if not all(run.whole for run in others.values()):
        return _undecided(f"the data did not come to its end in {limit_s:g} s with workers")
    return Proof(
        "refuted", f"refuted: all {alone.elements} elements come with {_listed(others)}, as with 0"
    )


def _failure(alone: Run, others: Mapping[str, Run]) -> Proof | None:
    for label, run in chain([("0 workers", alone)], others.items()):
        if run.failure:
            return _undecided(f"with {label} the loader failed: {run.failure}")
    return None


def _undecided(why: str) -> Proof:
    return Proof("not decided", f"not decided: {why}")


def _difference(alone: Run, run: Run, place: int, label: str) -> str:
    if place < min(len(alone.digests), len(run.digests)):
        return f"batch {place + 1} of {len(alone.digests)} differs with {label}"
    most = len(alone.digests) if alone.whole else f"more than {place}"
    came = len(run.digests) if run.whole else f"more than {place}"
    return f"{came} batches come with {label}, {most} with 0"


def _batches(number: int) -> str:
    return "1 batch" if number == 1 else f"{number} batches"


def _listed(labels: Iterable[str]) -> str:
    return " and with ".join(labels)
