"""The tables and lines at the end of a run."""

from types import SimpleNamespace
from typing import Any, cast

from netpipe.gate.acceptance import Acceptance
from netpipe.gate.work_comparison import compare_work
from netpipe.jobs.progress import OnProgress, Progress
from netpipe.plugin.gate_results import WORK, GateResult
from netpipe.plugin.summary import comparison_tables
from netpipe.results.measurement import Measurement
from tests.plugin.project import Project
from tests.plugin.recorded import recorded
from tests.work_profiles import with_calls


def test_durations_show_what_sessions_spend_their_time_on(project: Project) -> None:
    """With pytest's own flag, a session has a line with the seconds of its phases."""

    def measure(*_: object, progress: OnProgress) -> Measurement:
        progress(Progress("starting a process"))
        progress(Progress("making the loader"))
        return recorded()

    project.uses(measure=measure)
    line = "measuring against auto, session 1 of 1: starting a process *, making the loader *"
    project.run("--durations=0").stdout.fnmatch_lines([line])
    project.run().stdout.no_fnmatch_line(line)


def test_a_rise_of_one_part_has_its_own_figure() -> None:
    """The ratio of the totals would read 1.00 x beside REGRESSED."""
    then = with_calls({"rows.batch": {"": 1.0}, "builtins.len": {"rows.batch": 5_200.0}})
    now = with_calls({"rows.batch": {"": 2.0}, "builtins.len": {"rows.batch": 5_200.0}})
    (found,) = (each for each in compare_work(now, then) if each.metric == "calls")
    gate = SimpleNamespace(
        results=[GateResult("tests::test_work", WORK, found, None)], acceptance=Acceptance()
    )
    (table,) = comparison_tables(cast(Any, gate))
    assert [list(column.cells) for column in table.columns][2:] == [
        ["+1 call in one part"],
        ["REGRESSED"],
    ]


def test_a_blank_line_separates_a_table_from_the_verdict(project: Project) -> None:
    """The first table needs none, as it follows the heading."""
    project.record()
    lines = project.compare().outlines
    assert not lines[lines.index("against the baseline") - 1]
    assert "netpipe" in lines[lines.index("why training waits") - 1]
