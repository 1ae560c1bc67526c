"""Findings proven on a pipeline: what is read of it, and what becomes of the findings."""

import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

import grain
import pytest

from netpipe.linting.experiments.loader_runs import Run
from netpipe.linting.experiments.proofs import LOSS, ORDER, prove
from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.linter import LintReport
from netpipe.linting.rules.finding import LintFinding
from netpipe.measuring.loader_puller import LoaderFactory
from tests.fakes import FakeClock

WORKERS = grain.MultiprocessingOptions(num_workers=2)


def pipeline() -> Any:
    """A pipeline with workers, of which nothing is read here."""
    return grain.MapDataset.range(8).to_iter_dataset().mp_prefetch(WORKERS)


def run(text: str, *, whole: bool = True, elements: int = 0, failure: str = "") -> Run:
    """A run whose batches are the letters of a text."""
    return Run(tuple(letter.encode() for letter in text), elements, whole, failure)


def report(*rules: str, workers: int | None = 3) -> LintReport:
    """A report with an error of each rule, on a pipeline with so many workers."""
    nodes = (
        ()
        if workers is None
        else (Node(0, "ProcessPrefetch", {"num_workers": workers}, (), False),)
    )
    found = tuple(LintFinding(rule, "error", (0,), "", "") for rule in rules)
    return LintReport("reproducible", "0.2.18", Graph(nodes), found)


class Runs:
    """Answers what a reader is asked, and keeps what it was asked for."""

    def __init__(self, clock: FakeClock, *answers: Run) -> None:
        self._clock = clock
        self._answers = iter(answers)
        self.asked: list[tuple[float, float]] = []

    def __call__(self, _: LoaderFactory, enough: float, limit_s: float) -> Run:
        """Take a second and give the next answer."""
        self.asked.append((enough, limit_s))
        self._clock.sleep(1.0)
        return next(self._answers)


def test_a_proven_finding_stays_an_error(clock: FakeClock) -> None:
    """A finding that the data proves keeps its severity; no more runs are made than needed."""
    read = Runs(clock, run("abc"), run("abc"), run("xbc"))
    (found,) = prove(pipeline, report(ORDER), clock, 20.0, 64, read).findings
    assert (found.severity, found.proof) == ("error", "proven: batch 1 of 3 differs with 3 workers")
    assert read.asked == [(inf, 5.0), (inf, 19 / 3), (inf, 9.0)]


def test_a_refuted_finding_becomes_a_remark(clock: FakeClock) -> None:
    """A finding that the data refutes is info, and other rules' findings are left alone."""
    read = Runs(clock, *[run("abc")] * 4)
    order, other = prove(pipeline, report(ORDER, "no-prefetch"), clock, read=read).findings
    assert (order.severity, other.severity) == ("info", "error")
    assert order.proof == "refuted on all 3 batches with 3 workers and with 2 workers"
    assert other.proof == ""


def test_data_that_may_be_lost_is_read_to_its_end(clock: FakeClock) -> None:
    """Both rules share their runs, as long as the data has an end that is within reach."""
    read = Runs(
        clock, *[run("abc", elements=9)] * 2, run("abc", elements=6), run("abc", elements=9)
    )
    order, loss = prove(pipeline, report(ORDER, LOSS), clock, read=read).findings
    assert [enough for enough, _ in read.asked] == [inf] * 4
    assert (order.severity, loss.severity) == ("info", "error")
    assert loss.proof == "proven: 6 elements come with 3 workers, 9 with 0"


def test_endless_data_costs_one_look(clock: FakeClock) -> None:
    """Once the data is seen to have no end in time, order alone decides how much is read."""
    read = Runs(clock, *[run("abc", whole=False)] * 4)
    prove(pipeline, report(ORDER, LOSS), clock, most=3, read=read)
    assert [enough for enough, _ in read.asked] == [inf, 3, 3, 3]


@pytest.mark.parametrize(("workers", "runs"), [(2, 3), (None, 3), (4, 4)])
def test_two_workers_are_tried_once(clock: FakeClock, workers: int | None, runs: int) -> None:
    """The configured number and 2 are tried, which may be the same."""
    read = Runs(clock, *[run("abc")] * 4)
    prove(pipeline, report(ORDER, workers=workers), clock, read=read)
    assert len(read.asked) == runs


@pytest.mark.parametrize("intent", ["throughput", "reproducible"])
def test_a_proven_order_is_an_error_where_it_counts(clock: FakeClock, intent: str) -> None:
    """What the rule left open as a remark is wrong for "reproducible" once it is proven."""
    given = report(ORDER)
    remark = replace(given.findings[0], severity="info")
    given = replace(given, intent=intent, findings=(remark,))
    read = Runs(clock, run("abc"), run("abc"), run("xbc"))
    (found,) = prove(pipeline, given, clock, read=read).findings
    assert found.severity == {"throughput": "info", "reproducible": "error"}[intent]


def test_what_was_not_seen_stays_an_error(clock: FakeClock) -> None:
    """Equal batches at the start of endless data refute nothing."""
    read = Runs(clock, *[run("abc", whole=False)] * 4)
    (found,) = prove(pipeline, report(ORDER), clock, most=3, read=read).findings
    assert (found.severity, found.proof[:8]) == ("error", "not seen")


def test_workers_that_run_something_first_are_compared_with_one(clock: FakeClock) -> None:
    """Without workers that function would not run, and the data would be others."""

    def initialized() -> Any:
        return grain.MapDataset.range(8).to_iter_dataset().mp_prefetch(WORKERS, print)

    read = Runs(clock, run("abc"), run("abc"), run("abx"), run("abx"))
    (found,) = prove(initialized, report(ORDER, workers=1), clock, read=read).findings
    assert found.proof == "proven: batch 3 of 3 differs with 2 workers"
    assert len(read.asked) == 3
    read = Runs(clock, run("abc"), run("ab"), run("abx"))
    (found,) = prove(initialized, report(ORDER, workers=2), clock, read=read).findings
    assert "two runs with 1 worker already differ" in found.proof


def test_what_the_harness_cannot_change_is_said(clock: FakeClock) -> None:
    """Nothing is read of a pipeline whose number of workers cannot be changed, or that fails."""

    def threads() -> Any:
        dataset = grain.MapDataset.range(8).to_iter_dataset()
        return grain.experimental.multithread_prefetch(dataset, 2, 1)

    def broken() -> Any:
        raise ValueError("no data")

    read = Runs(clock)
    (found,) = prove(threads, report(ORDER), clock, read=read).findings
    assert "settings of multithread_prefetch cannot be changed by the harness" in found.proof
    (found,) = prove(broken, report(ORDER), clock, read=read).findings
    assert found.proof == "not decided: the loader failed: ValueError: no data"


def test_starts_are_no_part_of_the_limit(clock: FakeClock) -> None:
    """The seconds until a first batch are given back."""
    slow = replace(run("abc"), start_s=1.0)
    read = Runs(clock, slow, slow, slow, slow)
    prove(pipeline, report(ORDER), clock, read=read)
    assert [limit_s for _, limit_s in read.asked] == [5.0, 20 / 3, 10.0, 20.0]


def test_a_hang_ends_the_runs(clock: FakeClock) -> None:
    """Once workers hang no others are started."""
    stuck = Run((), 0, whole=False, hung=True)
    read = Runs(clock, run("abc"), run("abc"), stuck)
    (found,) = prove(pipeline, report(ORDER), clock, read=read).findings
    assert "with 3 workers the loader hung" in found.proof


def test_nothing_is_read_without_such_a_finding(clock: FakeClock) -> None:
    """A report without the two rules comes back as it is."""
    given = report("no-prefetch")
    assert prove(pipeline, given, clock, read=Runs(clock)) is given


# ---- With workers

SCRIPT = """
import sys
from functools import partial
from multiprocessing import shared_memory

import grain

from netpipe.grain_workers import let_grain_start_workers
from netpipe.clock import MonotonicClock
from netpipe.linting.rules.finding import LintFinding
from netpipe.linting.graph.reader import read_graph
from netpipe.linting.linter import LintReport
from netpipe.session.processes import ProcessTree
from netpipe.linting.experiments.proofs import LOSS, ORDER, prove

def marked(mark, index, count):
    # What these workers put into shared memory is told from what others have there.
    shared_memory._SHM_NAME_PREFIX = "/" + mark

def is_kept(element):
    return element % 3 > 0

def filtered():
    threads = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    dataset = grain.MapDataset.range(44).to_iter_dataset(threads).filter(is_kept)
    workers = grain.MultiprocessingOptions(num_workers=2, per_worker_buffer_size=4)
    batched = dataset.batch(4, drop_remainder=True)
    return batched.mp_prefetch(workers, worker_init_fn=partial(marked, sys.argv[1]))

if __name__ == "__main__":
    let_grain_start_workers()
    found = tuple(LintFinding(rule, "error", (), "", "") for rule in (ORDER, LOSS))
    given = LintReport("reproducible", "", read_graph(filtered()), found)
    for finding in prove(filtered, given, MonotonicClock(), 120.0).findings:
        print(finding.proof)
    print(ProcessTree().workers)
"""


def test_a_real_pipeline_is_judged(tmp_path: Path) -> None:
    """Filtered batches differ with two workers and lose some; nothing is left of the workers."""
    script, mark = tmp_path / "judge.py", f"p{sha256(bytes(tmp_path)).hexdigest()[:5]}"
    script.write_text(SCRIPT, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, str(script), mark], capture_output=True, text=True, check=False
    )
    assert ended.stdout.splitlines() == [
        "proven: batch 1 of 7 differs with 2 workers",
        "proven: 24 elements come with 2 workers, 28 with 1",
        "0",
    ], ended.stderr
    # Grain leaves a batch that it drops to Python's resource tracker, which has ended by now: the
    # output that it shares with the process has.
    assert list(Path("/dev/shm").glob(f"{mark}*")) == []


def test_proofs_end_with_their_limit(clock: FakeClock) -> None:
    """Slow starts of workers count up to 10 s in all; what is left then is said to be skipped."""

    def slow(*_: object) -> Run:
        clock.sleep(15.0)
        return replace(run("abc"), start_s=14.0)

    (finding,) = prove(pipeline, report(ORDER), clock, 20.0, read=slow).findings
    assert clock() <= 20.0 + 10.0 + 15.0
    assert finding.proof == (
        "not decided: skipped for lack of time: the loader was not read with 3 workers"
    )


def test_what_was_proven_is_not_taken_back(clock: FakeClock) -> None:
    """A run that there was no time for leaves what an earlier one showed."""
    answers = iter(("abc", "abc", "acb", "abc"))

    def slow(*_: object) -> Run:
        clock.sleep(10.0)
        return run(next(answers), elements=3)

    proven = prove(pipeline, report(ORDER, LOSS), clock, 20.0, read=slow)
    by_rule = {one.rule: one.proof for one in proven.findings}
    assert by_rule[ORDER].startswith("proven: batch 2 of 3 differs with 3 workers")
    assert "skipped for lack of time" in by_rule[LOSS]
