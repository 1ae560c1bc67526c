"""Findings that only the data decides: proven, refuted, or left open with the evidence."""

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

import grain
import pytest

from netpipe.grain_access.nodes import Graph, Node
from netpipe.linting.experiments.loader_runs import Run
from netpipe.linting.experiments.proofs import LOSS, ORDER, judge_loss, judge_order, prove
from netpipe.linting.linter import LintReport
from netpipe.linting.rules.finding import LintFinding, Severity
from netpipe.measuring.loader_puller import LoaderFactory
from tests.fakes import FakeClock

MANY = "a" * 64 + "+"
WORKERS = grain.MultiprocessingOptions(num_workers=2)


def pipeline() -> Any:
    """A pipeline with workers that is not read here."""
    return grain.MapDataset.range(8).to_iter_dataset().mp_prefetch(WORKERS)


def run(text: str, *, elements: int = 0, failure: str = "") -> Run:
    """A run whose batches are the letters of a text; a "+" at its end: the data continues."""
    whole = not failure and not text.endswith("+")
    return Run(tuple(letter.encode() for letter in text.strip("+")), elements, whole, failure)


def report(*rules: str, workers: int | None = 3) -> LintReport:
    """A report with an error of each rule, on a pipeline with a number of workers or with none."""
    node = Node(0, "ProcessPrefetch", {"num_workers": workers}, (), False)
    graph = Graph(() if workers is None else (node,))
    found = tuple(LintFinding(rule, "error", (0,), "", "") for rule in rules)
    return LintReport("reproducible", "0.2.18", graph, found)


# ---- What runs decide


def runs(alone: Run, again: Run, **others: Run) -> dict[str, Run]:
    """Runs without workers, twice, and with some."""
    return {"0 workers": alone, "0 workers, in the second run,": again, **others}


@pytest.mark.parametrize(
    ("alone", "again", "others", "outcome", "seen"),
    [
        ("abc+", "abc+", {"3 workers": "abx+"}, "proven", "batch 3 of 3 .* 3 workers"),
        ("abcd", "abcd", {"3 workers": "ab"}, "proven", "2 batches .* 3 workers, 4 .* 0"),
        ("ab", "ab", {"3 workers": "abcd+"}, "proven", "more than 2 batches .* 3 workers, 2 .* 0"),
        (MANY, MANY, {"3 workers": MANY, "2 workers": MANY}, "not seen", "64 .* 3 .* 2"),
        ("a", "a", {"2 workers": "a"}, "refuted", "1 batch with 2 workers"),
        ("abc+", "axc+", {"2 workers": "xyz+"}, "not decided", "0 workers .* batch 2: .* seed"),
        ("abc+", "a+", {"2 workers": "abx+"}, "not decided", "1 batch in time"),
        ("abc+", "abc+", {"2 workers": "ab+"}, "not decided", "2 batches in time"),
    ],
)
def test_order_is_decided(
    alone: str, again: str, others: Mapping[str, str], outcome: str, seen: str
) -> None:
    """Batches that differ prove, enough equal ones refute, and randomness is not blamed."""
    with_workers = {label: run(text) for label, text in others.items()}
    proof = judge_order(runs(run(alone), run(again), **with_workers))
    assert proof.outcome == outcome
    assert re.search(seen, proof.seen)


@pytest.mark.parametrize(
    ("alone", "again", "others", "outcome", "seen"),
    [
        (("ab", 32), ("ab", 32), [("a", 16)], "proven", "16 .* 3 workers, 32 .* 0"),
        (("ab", 32), ("ab", 32), [("a", 32), ("b", 16)], "proven", "16 .* 2 workers, 32 .* 0"),
        (("ab", 32), ("ab", 32), [("xy", 32)], "refuted", "32 elements .* 3 workers, .* 0"),
        (("ab+", 32), ("ab+", 32), [], "not decided", "in time with 0 workers$"),
        (("ab", 32), ("ab", 32), [("x+", 16)], "not decided", "in time with 3 workers"),
        (("ab", 32), ("ab", 30), [("x", 16)], "not decided", "0 workers .* 32 and 30"),
        # Neither more elements nor equally many in fewer batches show that some are lost.
        (("ab", 32), ("ab", 32), [("a", 32)], "not decided", "32 .* 1 batch .* 3 workers, 32 .* 2"),
        (("ab", 32), ("ab", 32), [("abc", 40)], "not decided", "40 .* 3 batches .* 32 .* 2"),
        (("ab", 32), ("a+", 16), [("x", 16)], "not decided", "in time with 0 workers$"),
    ],
)
def test_loss_is_decided(
    alone: tuple[str, int],
    again: tuple[str, int],
    others: list[tuple[str, int]],
    outcome: str,
    seen: str,
) -> None:
    """Fewer elements at the end of the data prove a loss; equally many refute it."""
    base, repeated, *rest = (run(text, elements=count) for text, count in (alone, again, *others))
    with_workers = dict(zip(("3 workers", "2 workers"), rest, strict=False))
    proof = judge_loss(runs(base, repeated, **with_workers))
    assert proof.outcome == outcome
    assert re.search(seen, proof.seen)


STUCK = Run((b"a",), 1, whole=False, hung=True)


@pytest.mark.parametrize("judge", [judge_order, judge_loss])
@pytest.mark.parametrize(
    ("alone", "other", "seen"),
    [
        (
            run("ab"),
            run("", failure="failed: ValueError: bad record"),
            "2 workers .*: ValueError: bad rec",
        ),
        (run("", failure="failed: no data"), run("ab"), "0 workers .*: no data"),
        (run("ab"), STUCK, "2 workers .* hung, .* 1 batch"),
        (run("ab"), Run(failure="was not read"), "2 workers the loader was not read"),
    ],
)
def test_a_loader_that_fails_or_hangs_decides_nothing(
    judge: Any, alone: Run, other: Run, seen: str
) -> None:
    """The message names the number of workers and what happened."""
    proof = judge(runs(alone, alone, **{"2 workers": other}))
    assert proof.outcome == "not decided"
    assert re.search(seen, proof.seen)


@pytest.mark.parametrize("judge", [judge_order, judge_loss])
@pytest.mark.parametrize("judged", ["abx", "abc"])
def test_a_loader_that_fails_when_read_again_decides_nothing(judge: Any, judged: str) -> None:
    """The message names the failure, rather than too little time, a difference or other counts."""
    again = run("ab", elements=2, failure="failed: ValueError: read already")
    proof = judge(runs(run("abc", elements=3), again, two_workers=run(judged, elements=3)))
    assert proof.outcome == "not decided"
    assert re.search("0 workers, .* second .* failed: ValueError: read already", proof.seen)


def test_the_run_that_hung_is_named() -> None:
    """The hung run is one of the two without workers; too little time is not the reason."""
    proof = judge_order(runs(run("ab"), STUCK, two_workers=run("ab")))
    assert re.match("with 0 workers, .* second .* hung, .* 1 batch", proof.seen)
    assert re.search("0 workers .* hung", judge_loss(runs(STUCK, run("ab"))).seen)


# ---- The effect on the findings


class Reader:
    """Answers each reading with the next run, and records the requests."""

    def __init__(self, clock: FakeClock, *answers: Run, read_s: float = 1.0) -> None:
        self._clock = clock
        self._answers = iter(answers)
        self._read_s = read_s
        self.asked: list[tuple[float, float]] = []

    def __call__(self, _: LoaderFactory, enough: float, limit_s: float) -> Run:
        """Advance the clock by the time of a reading, and return the next run."""
        self.asked.append((enough, limit_s))
        self._clock.sleep(self._read_s)
        return next(self._answers)


@pytest.mark.parametrize(
    ("intent", "severity", "expected"),
    [
        ("reproducible", "error", "error"),
        ("reproducible", "info", "error"),
        ("throughput", "info", "info"),
    ],
)
def test_a_proven_order_is_an_error_for_reproducible(
    clock: FakeClock, intent: str, severity: Severity, expected: str
) -> None:
    """A remark becomes an error once it is proven; no more runs are made than needed."""
    given = report(ORDER)
    finding = replace(given.findings[0], severity=severity)
    given = replace(given, intent=intent, findings=(finding,))
    read = Reader(clock, run("abc"), run("abc"), run("xbc"))
    (found,) = prove(pipeline, given, clock, read=read).findings
    assert found.severity == expected
    assert found.proof == "proven: batch 1 of 3 differs with 3 workers"
    assert read.asked == [(inf, 5.0), (inf, 19 / 3), (inf, 9.0)]


def test_a_refuted_finding_becomes_a_remark(clock: FakeClock) -> None:
    """Findings of other rules stay, and a report without the two rules comes back as it is."""
    given = report("no-prefetch")
    assert prove(pipeline, given, clock, read=Reader(clock)) is given
    read = Reader(clock, *[run("abc")] * 4)
    order, other = prove(pipeline, report(ORDER, "no-prefetch"), clock, read=read).findings
    assert (order.severity, other.severity) == ("info", "error")
    assert re.match("refuted: .* 3 batches .* 3 .* 2 workers", order.proof)
    assert other.proof == ""


def test_data_that_may_be_lost_is_read_to_its_end(clock: FakeClock) -> None:
    """Both rules share their runs, as long as the end of the data is within reach."""
    texts = [("abc", 9), ("abc", 9), ("abc", 6), ("abc", 9)]
    read = Reader(clock, *(run(text, elements=count) for text, count in texts))
    order, loss = prove(pipeline, report(ORDER, LOSS), clock, read=read).findings
    assert [enough for enough, _ in read.asked] == [inf] * 4
    assert (order.severity, loss.severity) == ("info", "error")
    assert re.match("proven: 6 .* 3 workers, 9 .* 1 worker$", loss.proof)


def test_endless_data_costs_one_look(clock: FakeClock) -> None:
    """Equal batches at the start of endless data refute nothing, so the error stays."""
    read = Reader(clock, *[run(MANY)] * 4)
    found, _ = prove(pipeline, report(ORDER, LOSS), clock, read=read).findings
    assert [enough for enough, _ in read.asked] == [inf, 64, 64, 64]
    assert (found.severity, found.proof[:8]) == ("error", "not seen")


@pytest.mark.parametrize(("workers", "runs"), [(2, 3), (None, 3), (4, 4)])
def test_two_workers_are_tried_once(clock: FakeClock, workers: int | None, runs: int) -> None:
    """The configured number and 2 are tried, which may be the same."""
    read = Reader(clock, *[run("abc")] * 4)
    prove(pipeline, report(ORDER, workers=workers), clock, read=read)
    assert len(read.asked) == runs


def thread_pipeline() -> Any:
    """A pipeline whose number of workers cannot be changed."""
    dataset = grain.MapDataset.range(8).to_iter_dataset()
    return grain.experimental.multithread_prefetch(dataset, 2, 1)


def broken_pipeline() -> Any:
    """A factory that fails."""
    raise ValueError("no data")


@pytest.mark.parametrize(
    ("loader", "seen"),
    [
        (thread_pipeline, "mp_prefetch .* multithread_prefetch"),
        (broken_pipeline, "failed: ValueError: no data"),
    ],
)
def test_a_pipeline_that_cannot_be_rebuilt_is_not_read(
    clock: FakeClock, loader: LoaderFactory, seen: str
) -> None:
    """The proof says why nothing was decided."""
    (found,) = prove(loader, report(ORDER), clock).findings
    assert re.match(f"not decided: with at most 1 worker .*{seen}", found.proof)


def test_a_hang_ends_the_runs(clock: FakeClock) -> None:
    """Once workers hang no others are started."""
    read = Reader(clock, run("abc"), run("abc"), replace(STUCK, digests=()))
    (found,) = prove(pipeline, report(ORDER), clock, read=read).findings
    assert re.match(".* 3 workers .* hung", found.proof)


def test_proofs_end_with_their_limit(clock: FakeClock) -> None:
    """Slow starts of workers count up to 10 s in all; then the next run is skipped."""
    read = Reader(clock, *[replace(run("abc"), start_s=1.0)] * 4)
    prove(pipeline, report(ORDER), clock, read=read)
    assert [limit_s for _, limit_s in read.asked] == [5.0, 20 / 3, 10.0, 20.0]
    began_s = clock()
    read = Reader(clock, *[replace(run("abc"), start_s=14.0)] * 4, read_s=15.0)
    (finding,) = prove(pipeline, report(ORDER), clock, 20.0, read=read).findings
    assert clock() - began_s <= 20.0 + 10.0 + 15.0
    assert re.match("not decided: with 3 .* lack of time", finding.proof)


def test_a_skipped_run_takes_no_proof_back(clock: FakeClock) -> None:
    """A run that was skipped for lack of time leaves the result of an earlier one."""
    texts = ("abc", "abc", "acb", "abc")
    read = Reader(clock, *(run(text, elements=3) for text in texts), read_s=10.0)
    proven = prove(pipeline, report(ORDER, LOSS), clock, 20.0, read=read)
    proofs = {finding.rule: finding.proof for finding in proven.findings}
    assert re.match("proven: batch 2 .* 3 workers", proofs[ORDER])
    assert "lack of time" in proofs[LOSS]


# ---- With workers

SCRIPT = """
import sys
from functools import partial
from multiprocessing import shared_memory

import grain

from netpipe.grain_access.worker_start import let_grain_start_workers
from netpipe.clock import Clock
from netpipe.linting.rules.finding import LintFinding
from netpipe.grain_access.reader import read_graph
from netpipe.linting.linter import LintReport
from netpipe.jobs.processes import ProcessTree
from netpipe.linting.experiments.proofs import LOSS, ORDER, prove

def marked(mark, index, count):
    # Distinguishes the shared memory of these workers from that of others.
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
    for finding in prove(filtered, given, Clock(), 120.0).findings:
        print(finding.proof)
    print(ProcessTree().workers)
"""


def test_a_real_pipeline_is_judged(tmp_path: Path) -> None:
    """Filtered batches differ with two workers and lose some; no process of a worker is left."""
    script, mark = tmp_path / "judge.py", f"p{sha256(bytes(tmp_path)).hexdigest()[:5]}"
    script.write_text(SCRIPT, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, str(script), mark], capture_output=True, text=True, check=False
    )
    order, loss, workers_left = ended.stdout.splitlines()
    assert re.match("proven: batch 1 .* 2 workers", order), ended.stderr
    assert re.match("proven: 24 .* 2 workers, 28 .* 1", loss)
    assert workers_left == "0"
    # Grain leaves a batch that it drops to Python's resource tracker, which has ended by now: the
    # output that it shares with the process has.
    assert list(Path("/dev/shm").glob(f"{mark}*")) == []
