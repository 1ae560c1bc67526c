"""A diagnosis for people."""

from dataclasses import replace
from math import inf

from rich.console import Console

from netpipe.diagnosis.diagnosis import Diagnosis, Need
from netpipe.diagnosis.report import closing, tables
from netpipe.results.measurement import Interval
from tests.diagnosis.examples import VERIFIED, diagnosis, findings, interval, stage

NEED = Need("h200", 0.0101, 98.9, 5, 4.15, 0.51)


def printed(found: Diagnosis, width: int = 118) -> list[str]:
    """Return what the tables look like, each as one text without repeated spaces."""
    texts = []
    for table in tables(found):
        # As netpipe.cli.console prints it: what comes from the user is no markup.
        console = Console(width=width, markup=False, emoji=False, highlight=False)
        with console.capture() as capture:
            console.print(table)
        texts.append(" ".join(capture.get().split()))
    return texts


def test_stages_have_all_their_figures() -> None:
    """Share, wall and CPU time, the lane without it, where it runs and where it was made."""
    slow = stage(without_s_per_batch=interval(0.011), cpu_s_per_batch=0.020)
    text = printed(diagnosis(findings=findings(stages=(slow,))))[0]
    assert "40 ms in all" in text
    assert "Map of mine.tokenize 75.0% 30 ms 20 ms 11 ms workers mine.py:7" in text


def test_a_dozen_stages_are_told_by_the_largest() -> None:
    """A table of eight is read, the document has them all."""
    many = tuple(stage(f"Stage{number}", 0.001) for number in range(12))
    text = printed(diagnosis(findings=findings(stages=many)))[0]
    assert "Stage7" in text
    assert "Stage8" not in text


def test_interventions_that_failed_have_no_figure() -> None:
    """A speedup with its interval, or the reason why there is none."""
    text = printed(diagnosis())[1]
    assert (
        "two single-thread runs, each in a process 1.90 (1.71 to 2.09) 1.90 times as fast" in text
    )
    assert "from the cache not made: no file" in text


def test_a_single_round_has_no_interval() -> None:
    """An interval from 0 to infinity is no figure."""
    one = replace(findings().interventions[0], speedup=Interval(2.0, 0.0, inf, 1))
    text = printed(diagnosis(findings=findings(interventions=(one,))))[1]
    assert "2.00 (1 round, too few for an interval)" in text


def test_predictions_stand_below_what_was_measured() -> None:
    """The first row is the loader as it is."""
    text = printed(diagnosis())[2]
    assert "the loader as it is (measured) 20 ms (18 to 22 ms) 3 workers 15 ms" in text
    assert "1.10" in text


def test_needs_are_told_where_they_are_known() -> None:
    """One row for each accelerator; no table without them."""
    assert "h200 10.1 ms 98.9 5 4.2 0.51" in printed(diagnosis([NEED]))[3]
    assert len(printed(diagnosis())) == 3


def test_no_table_is_empty() -> None:
    """A loader of which no stage was seen has neither stages nor predictions."""
    bare = diagnosis(findings=findings(stages=(), what_if=()))
    assert len(printed(bare)) == 1


def test_names_are_told_as_they_are() -> None:
    """Markup and emoji in the user's names are text, and break nothing."""
    odd = stage("Map of mine.<lambda>[/x] :smile: [red]", made_at="a[b].py:1")
    text = printed(diagnosis(findings=findings(stages=(odd,))), 200)[0]
    assert "Map of mine.<lambda>[/x] :smile: [red]" in text
    assert "a[b].py:1" in text


def test_what_was_tried_closes_it() -> None:
    """Its outcome, or why nothing was tried."""
    assert closing(findings(verified=VERIFIED, unverified="")) == "tried: as foreseen"
    assert closing(findings()) == "nothing was tried: there was no time"
