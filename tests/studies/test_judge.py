"""The changes that the study of `netpipe judge` plants."""

from pathlib import Path

import pytest

from perf_tests.studies.judge import changes
from perf_tests.studies.judge.__main__ import Trial, format_table
from perf_tests.studies.judge.changes import CHEATS, HONEST, OURS, Change

PIPELINE = Path(changes.__file__).with_name("pipeline.py").read_text("utf-8")


@pytest.mark.parametrize("change", [*CHEATS, *HONEST], ids=lambda change: change.name)
def test_a_change_fits_the_pipeline(change: Change) -> None:
    """The changed pipeline can be compiled, and differs unless nothing was to change."""
    changed = change.apply(PIPELINE)
    compile(changed, change.name, "exec")
    assert (changed == PIPELINE) == (not change.lines)


def test_each_change_is_listed_once() -> None:
    """A trial names its change."""
    names = [change.name for change in (*CHEATS, *HONEST, OURS)]
    assert len(names) == len(set(names))


def test_the_table_counts_verdicts_by_group() -> None:
    """Unchanged code is neither wrong nor honest; trials beside a busy core have a row."""

    def trial(change: Change, verdict: str, *, is_right: bool, is_busy: bool = False) -> Trial:
        return Trial(change.name, verdict, [], [], is_right, 80.0, "c", "h", "now", is_busy)

    trials = [
        trial(CHEATS[0], "REFUSED", is_right=True),
        trial(HONEST[1], "UNDECIDED", is_right=False),
        trial(HONEST[0], "ACCEPTED", is_right=True),
        trial(OURS, "ACCEPTED", is_right=True),
        trial(OURS, "UNDECIDED", is_right=False, is_busy=True),
    ]
    assert list(format_table(trials))[2:] == [
        "| wrong | no | 1 | 0 | 0 | 1 | 1 of 1 |",
        "| honest | no | 1 | 0 | 1 | 0 | 0 of 1 |",
        "| unchanged | no | 2 | 2 | 0 | 0 | 2 of 2 |",
        "| unchanged | yes | 1 | 0 | 1 | 0 | 0 of 1 |",
    ]
