"""The changes that the study of `netpipe judge` plants."""

from pathlib import Path

import pytest

from perf_tests.studies.judge import changes
from perf_tests.studies.judge.changes import CHEATS, HONEST, Change

PIPELINE = Path(changes.__file__).with_name("pipeline.py").read_text("utf-8")


@pytest.mark.parametrize("change", [*CHEATS, *HONEST], ids=lambda change: change.name)
def test_a_change_fits_the_pipeline(change: Change) -> None:
    """The changed pipeline can be compiled, and differs unless nothing was to change."""
    changed = change.apply(PIPELINE)
    compile(changed, change.name, "exec")
    assert (changed == PIPELINE) == (not change.lines)


def test_each_change_is_listed_once() -> None:
    """A trial names its change."""
    names = [change.name for change in (*CHEATS, *HONEST)]
    assert len(names) == len(set(names))
