"""Findings that only the data decides: proven, refuted, or left open with what was seen."""

import subprocess
import sys
from collections.abc import Mapping
from hashlib import sha256
from math import inf
from pathlib import Path

import pytest

from netpipe.harness.graph.nodes import Graph, Node
from netpipe.harness.ordering import LintReport
from netpipe.harness.pull import LoaderFactory
from netpipe.harness.rules.finding import LintFinding
from netpipe.harness.trying.proofs import LOSS, ORDER, lost, prove, reordered
from netpipe.harness.trying.reading import Run
from tests.harness.fakes import FakeClock

AMPLE_S = 120.0


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


ORDERS: list[tuple[Run, Run, dict[str, Run], str]] = [
    (
        run("abc", whole=False),
        run("abc", whole=False),
        {"3 workers": run("abx", whole=False)},
        "proven: batch 3 of 3 differs with 3 workers",
    ),
    (
        run("abcd"),
        run("abcd"),
        {"3 workers": run("ab")},
        "proven: 2 batches come with 3 workers, 4 with 0",
    ),
    (
        run("ab"),
        run("ab"),
        {"3 workers": run("abcd", whole=False)},
        "proven: more than 2 batches come with 3 workers, 2 with 0",
    ),
    (
        run("abc", whole=False),
        run("abc", whole=False),
        {"3 workers": run("abc", whole=False), "2 workers": run("abc", whole=False)},
        "refuted on the first 3 batches with 3 workers and with 2 workers",
    ),
    (run("a"), run("a"), {"2 workers": run("a")}, "refuted on all 1 batch with 2 workers"),
    (
        run("abc", whole=False),
        run("axc", whole=False),
        {"2 workers": run("xyz", whole=False)},
        (
            "not decided: two runs with 0 workers already differ, in batch 2: something is drawn"
            " without a seed"
        ),
    ),
    (
        run("abc", whole=False),
        run("a", whole=False),
        {"2 workers": run("abx", whole=False)},
        "not decided: 1 batch in 20 s, all the same",
    ),
    (
        run("abc", whole=False),
        run("abc", whole=False),
        {"2 workers": run("ab", whole=False)},
        "not decided: 2 batches in 20 s, all the same",
    ),
    (
        run("abc"),
        run("abc"),
        {"2 workers": run("", whole=False, failure="ValueError: bad record")},
        "not decided: with 2 workers the loader failed: ValueError: bad record",
    ),
    (
        run("", whole=False, failure="no data"),
        run(""),
        {},
        "not decided: with 0 workers the loader failed: no data",
    ),
]


@pytest.mark.parametrize(("alone", "again", "others", "message"), ORDERS)
def test_order_is_decided(alone: Run, again: Run, others: Mapping[str, Run], message: str) -> None:
    """Batches that differ prove, enough equal ones refute, and randomness is not blamed."""
    proof = reordered(alone, again, others, 3, 20.0)
    assert proof.message == message
    assert message.startswith(proof.outcome)


LOSSES: list[tuple[Run, Run, dict[str, Run], str]] = [
    (
        run("ab", elements=32),
        run("ab", elements=32),
        {"3 workers": run("a", elements=16)},
        "proven: 16 elements come with 3 workers, 32 with 0",
    ),
    (
        run("ab", elements=32),
        run("ab", elements=32),
        {"3 workers": run("a", elements=32), "2 workers": run("b", elements=16)},
        "proven: 16 elements come with 2 workers, 32 with 0",
    ),
    (
        run("ab", elements=32),
        run("ab", elements=32),
        {"3 workers": run("xy", elements=32)},
        "refuted: all 32 elements come with 3 workers, as with 0",
    ),
    (
        run("ab", elements=32, whole=False),
        run("ab", elements=32, whole=False),
        {},
        "not decided: the data did not come to its end in 20 s",
    ),
    (
        run("ab", elements=32),
        run("ab", elements=32),
        {"3 workers": run("x", elements=16, whole=False)},
        "not decided: the data did not come to its end in 20 s with workers",
    ),
    (
        run("ab", elements=32),
        run("ab", elements=30),
        {"3 workers": run("x", elements=16)},
        "not decided: two runs with 0 workers gave 32 and 30 elements",
    ),
    (
        run("ab", elements=32),
        run("ab", elements=32),
        {"3 workers": run("", failure="no space left")},
        "not decided: with 3 workers the loader failed: no space left",
    ),
]


@pytest.mark.parametrize(("alone", "again", "others", "message"), LOSSES)
def test_loss_is_decided(alone: Run, again: Run, others: Mapping[str, Run], message: str) -> None:
    """Fewer elements at the end of the data prove that some are lost; as many refute it."""
    proof = lost(alone, again, others, 20.0)
    assert proof.message == message
    assert message.startswith(proof.outcome)


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
    (found,) = prove(list, report(ORDER), clock, 20.0, 64, read).findings
    assert (found.severity, found.proof) == ("error", "proven: batch 1 of 3 differs with 3 workers")
    assert read.asked == [(64, 5.0), (64, 19 / 3), (64, 9.0)]


def test_a_refuted_finding_becomes_a_remark(clock: FakeClock) -> None:
    """A finding that the data refutes is info, and other rules' findings are left alone."""
    read = Runs(clock, *[run("abc")] * 4)
    order, other = prove(list, report(ORDER, "no-prefetch"), clock, read=read).findings
    assert (order.severity, other.severity) == ("info", "error")
    assert order.proof == "refuted on all 3 batches with 3 workers and with 2 workers"
    assert other.proof == ""


def test_data_that_may_be_lost_is_read_to_its_end(clock: FakeClock) -> None:
    """Both rules share their runs, as long as the data has an end that is within reach."""
    read = Runs(
        clock, *[run("abc", elements=9)] * 2, run("abc", elements=6), run("abc", elements=9)
    )
    order, loss = prove(list, report(ORDER, LOSS), clock, read=read).findings
    assert [enough for enough, _ in read.asked] == [inf] * 4
    assert (order.severity, loss.severity) == ("info", "error")
    assert loss.proof == "proven: 6 elements come with 3 workers, 9 with 0"


def test_endless_data_costs_one_look(clock: FakeClock) -> None:
    """Once the data is seen to have no end in time, order alone decides how much is read."""
    read = Runs(clock, *[run("abc", whole=False)] * 4)
    prove(list, report(ORDER, LOSS), clock, most=3, read=read)
    assert [enough for enough, _ in read.asked] == [inf, 3, 3, 3]


@pytest.mark.parametrize(("workers", "runs"), [(2, 3), (None, 3), (4, 4)])
def test_two_workers_are_tried_once(clock: FakeClock, workers: int | None, runs: int) -> None:
    """The configured number and 2 are tried, which may be the same."""
    read = Runs(clock, *[run("abc")] * 4)
    prove(list, report(ORDER, workers=workers), clock, read=read)
    assert len(read.asked) == runs


def test_nothing_is_read_without_such_a_finding(clock: FakeClock) -> None:
    """A report without the two rules comes back as it is."""
    given = report("no-prefetch")
    assert prove(list, given, clock, read=Runs(clock)) is given


# ---- With workers

SCRIPT = """
import sys
from functools import partial
from multiprocessing import shared_memory

import grain

from netpipe.grain_workers import let_grain_start_workers
from netpipe.harness.clock import MonotonicClock
from netpipe.harness.rules.finding import LintFinding
from netpipe.harness.graph.reading import read_graph
from netpipe.harness.ordering import LintReport
from netpipe.harness.processes import ProcessTree
from netpipe.harness.trying.proofs import LOSS, ORDER, prove

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
        "proven: 24 elements come with 2 workers, 28 with 0",
        "0",
    ], ended.stderr
    # Grain leaves a batch that it drops to Python's resource tracker, which has ended by now: the
    # output that it shares with the process has.
    assert list(Path("/dev/shm").glob(f"{mark}*")) == []
