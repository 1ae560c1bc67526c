"""Findings that only the data decides: proven, refuted, or left open with what was seen."""

from collections.abc import Mapping
from typing import Any

import grain
import pytest

from netpipe.linting.experiments.loader_runs import Run
from netpipe.linting.experiments.proofs import Runs, judge_loss, judge_order
from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.linter import LintReport
from netpipe.linting.rules.finding import LintFinding

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
        "not seen in the first 3 batches with 3 workers and with 2 workers",
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
    proof = judge_order(Runs(alone, again, others, 20.0, most=3))
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
    proof = judge_loss(Runs(alone, again, others, 20.0))
    assert proof.message == message
    assert message.startswith(proof.outcome)


def test_other_counts_are_no_proof() -> None:
    """More elements, or as many in fewer batches, neither prove nor refute that some are lost."""
    alone = run("ab", elements=32)
    for other, came in (("a", "32 elements in 1 batch"), ("abc", "40 elements in 3 batches")):
        proof = judge_loss(
            Runs(alone, alone, {"2 workers": run(other, elements=int(came[:2]))}, 20.0)
        )
        assert proof.message == f"not decided: {came} come with 2 workers, 32 in 2 batches with 0"


def test_a_hanging_loader_is_reported() -> None:
    """A loader that was still waited for is not one whose batches are all the same."""
    alone, stuck = run("ab"), Run((b"a",), 1, whole=False, hung=True)
    expected = "not decided: with 2 workers the loader hung, or was too slow for the limit, after 1"
    runs = Runs(alone, alone, {"2 workers": stuck}, 20.0, most=1)
    for proof in (judge_order(runs), judge_loss(runs)):
        assert proof.message == f"{expected} batch"
    message = judge_loss(Runs(stuck, alone, {}, 20.0)).message
    assert "with 0 workers the loader hung" in message
