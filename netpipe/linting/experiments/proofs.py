"""Tests two rules about workers on the data, by reading batches with and without workers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Final, Literal

from netpipe.clock import Clock
from netpipe.grain_access.dataset_variants import Variant, build_variant
from netpipe.grain_access.nodes import Graph
from netpipe.jobs.targets import LoaderFactory
from netpipe.linting.experiments.loader_runs import Run, read_batches
from netpipe.linting.linter import LintReport
from netpipe.linting.rules.finding import LintFinding
from netpipe.results.units import format_count

ORDER: Final = "worker-count-changes-order"
LOSS: Final = "batch-in-workers-loses-data"

# Number of batches to compare when the data do not end in time.
_COMPARED_BATCHES: Final = 64
# One worker is kept if the workers run an init function.
_BASE: Final = "at most 1 worker"
# Starting workers may exceed the limit for reading by this much in total.
_STARTS_LIMIT_S: Final = 10.0


@dataclass(frozen=True)
class Proof:
    """The outcome of the runs for a finding; "not seen": no difference in the data read."""

    outcome: Literal["proven", "refuted", "not seen", "not decided"]
    seen: str


Runs = Mapping[str, Run]
"""Runs of one loader by their labels: two without workers, then those with workers.

If the first two differ, workers are not the cause.
"""
Read = Callable[[LoaderFactory, float, float], Run]
"""Reads a loader until the number of batches is reached or the seconds have passed."""


def prove(
    loader: LoaderFactory,
    report: LintReport,
    clock: Clock,
    limit_s: float = 20.0,
    read: Read | None = None,
) -> LintReport:
    """Return the report after testing the findings that only the data can decide.

    Grain must be allowed to start workers. All iterators are closed at the end; a worker that hangs
    is killed. A refuted finding becomes a remark, and a proven change of order becomes an error for
    the intent "reproducible". The limit is for all reading; starting workers may add 10 s.
    """
    rules = {finding.rule for finding in report.findings}.intersection((ORDER, LOSS))
    if not rules:
        return report
    read = read or partial(read_batches, clock=clock)
    proofs = _judge_until_proven(_read_variants(loader, report.graph, read, clock, limit_s), rules)
    findings = (
        _add_proof(finding, proofs[finding.rule], report.intent)
        if finding.rule in proofs
        else finding
        for finding in report.findings
    )
    return replace(report, findings=tuple(findings))


def _judge_until_proven(steps: Iterable[Runs], rules: Set[str]) -> dict[str, Proof]:
    """Return proofs by rule, judged after each step until all are proven or workers hang."""
    proofs: dict[str, Proof] = {}
    for runs in steps:
        # A proven rule stays proven, whatever runs with other numbers of workers show.
        proven = {rule: proof for rule, proof in proofs.items() if proof.outcome == "proven"}
        proofs = {ORDER: judge_order(runs), LOSS: judge_loss(runs), **proven}
        last = list(runs.values())[-1]
        if last.hung or all(proofs[rule].outcome == "proven" for rule in rules):
            break
    return proofs


def _add_proof(finding: LintFinding, proof: Proof, intent: str) -> LintFinding:
    severity = finding.severity
    if proof.outcome == "refuted":
        severity = "info"
    elif proof.outcome == "proven" and finding.rule == ORDER and intent == "reproducible":
        severity = "error"
    return replace(finding, proof=f"{proof.outcome}: {proof.seen}", severity=severity)


def _read_variants(
    loader: LoaderFactory, graph: Graph, read: Read, clock: Clock, limit_s: float
) -> Iterator[Runs]:
    """Yield two runs without workers and one with the configured number, then one with 2 too."""
    numbers = {node.parameters["num_workers"] for node in graph.of_kind("ProcessPrefetch")}
    variants = {_count_workers(*numbers): Variant()} if numbers - {0} else {}
    variants["2 workers"] = Variant(workers=2)
    runs_left = len(variants) + 2
    ends_s = clock() + limit_s
    latest_s = ends_s + _STARTS_LIMIT_S

    def run(variant: Variant, max_batches: float) -> Run:
        nonlocal ends_s, runs_left
        if clock() >= latest_s:
            return Run(failure="was not read, for lack of time")
        run_limit_s = max(0.0, ends_s - clock()) / runs_left
        made = read(lambda: build_variant(loader, variant), max_batches, run_limit_s)
        ends_s = min(ends_s + made.start_s, latest_s)
        runs_left -= 1
        return made

    # An init function of the workers may change the data.
    base = Variant(workers=0, keeps_init=True)
    alone = run(base, inf)
    max_batches = inf if alone.whole else _COMPARED_BATCHES
    again = run(base, max_batches)
    runs = {_BASE: alone, f"{_BASE}, in the second run,": again}
    for label, variant in variants.items():
        runs[label] = run(variant, max_batches)
        yield runs


def judge_order(runs: Runs) -> Proof:
    """Decide whether the number of workers changes the batches."""
    (base, alone), (_, again), *others = runs.items()
    if failure := _find_failure(runs):
        return failure
    if (same := alone.same_until(again)) < inf:
        differ = f"two runs with {base} already differ, in batch {same + 1:g}"
        return Proof("not decided", f"{differ}: something is random without a seed")
    trusted = inf if again.whole else len(again.digests)
    for label, run in others:
        if (same := alone.same_until(run)) < trusted:
            return Proof("proven", _describe_difference(alone, run, int(same), label, base))
    shortest = min(runs.values(), key=lambda run: len(run.digests))
    batches = format_count(len(shortest.digests), "batch")
    compared = f"{batches} with {' and with '.join(dict(others))}"
    if all(run.whole for run in runs.values()):
        return Proof("refuted", f"the same on all {compared}")
    if hang := _find_hang(runs):
        return hang
    if len(shortest.digests) >= _COMPARED_BATCHES:
        return Proof("not seen", f"the same on the first {compared}")
    return Proof("not decided", f"{batches} in time, all the same")


def judge_loss(runs: Runs) -> Proof:
    """Decide whether elements are lost in workers."""
    (base, alone), (_, again), *others = runs.items()
    if failure := _find_failure(runs):
        return failure
    is_repeated = alone.whole and again.whole
    if is_repeated and alone.elements != again.elements:
        counts = f"{alone.elements} and {again.elements} elements"
        return Proof("not decided", f"two runs with {base} gave {counts}")
    for label, run in others:
        if is_repeated and run.whole and run.elements < alone.elements:
            seen = f"{run.elements} elements come with {label}, {alone.elements} with {base}"
            return Proof("proven", seen)
    if hang := _find_hang(runs):
        return hang
    for label, run in ((base, alone), (base, again), *others):
        if not run.whole:
            return Proof("not decided", f"the data did not end in time with {label}")
        if run.elements > alone.elements or len(run.digests) < len(alone.digests):
            theirs, own = (format_count(len(each.digests), "batch") for each in (run, alone))
            seen = f"{format_count(run.elements, 'element')} in {theirs} come with {label}"
            expected = f"{alone.elements:,} in {own} with {base}"
            return Proof("not decided", f"{seen}, {expected}")
    labels = " and with ".join(dict(others))
    return Proof("refuted", f"all {alone.elements} elements come with {labels}, as with {base}")


def _find_failure(runs: Runs) -> Proof | None:
    """Return why the runs decide nothing, if one of them failed."""
    for label, run in runs.items():
        if run.failure:
            return Proof("not decided", f"with {label} the loader {run.failure}")
    return None


def _find_hang(runs: Runs) -> Proof | None:
    """Return why the runs decide nothing, if one of them hung."""
    for label, run in runs.items():
        if run.hung:
            how = f"was too slow for the limit, after {format_count(len(run.digests), 'batch')}"
            return Proof("not decided", f"with {label} the loader hung, or {how}")
    return None


def _describe_difference(alone: Run, run: Run, same: int, label: str, base: str) -> str:
    batches = len(alone.digests)
    if same < min(batches, len(run.digests)):
        return f"batch {same + 1} of {batches} differs with {label}"
    expected, seen = (
        str(len(each.digests)) if each.whole else f"more than {same}" for each in (alone, run)
    )
    return f"{seen} batches come with {label}, {expected} with {base}"


def _count_workers(*numbers: object) -> str:
    text = " and ".join(map(str, sorted(numbers, key=str)))
    return "1 worker" if text == "1" else f"{text} workers"
