"""The gate of a run, without pytest."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from netpipe.gate.acceptance import Acceptance
from netpipe.gate.baseline import Baseline
from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.gate.waivers import Waiver
from netpipe.plugin.against import dismiss_machine_alarm
from netpipe.plugin.gate import Gate, Selection
from netpipe.plugin.gate_results import WORK, GateResult, find_worst
from netpipe.plugin.measurer import Measurer
from netpipe.plugin.options import Options
from netpipe.plugin.session_nodes import Subject
from netpipe.plugin.sessions import Jobs
from netpipe.results.measurement import Measurement
from tests.plugin.recorded import CPU, H200, HOST, costly, recorded

TEST = "test_perf.py::test_load_time"
SUBJECT = Subject(("key",), "auto", ["command"], TEST)
TODAY = date(2026, 11, 25)
WAIVER = Waiver(TEST, "load_cpu_ratio", 1.6, "why", date(2026, 12, 31))


def gated(
    *coming: Measurement,
    baselines: Sequence[Baseline] = (),
    waivers: Sequence[Waiver] = (),
    **options: Any,
) -> Gate:
    """Return a gate whose sessions measure these, and that has read such baselines."""
    sessions = list(coming)
    jobs = Jobs(measure=lambda *_, **__: sessions.pop(0))
    measurer = Measurer(Options(**options), True, lambda _: None, jobs)
    acceptance = Acceptance(waivers=tuple(waivers), today=TODAY)
    gate = Gate(
        measurer, Selection(Path(), lambda name: name.startswith("test_perf.py")), acceptance
    )
    gate.selection.timed = {TEST}
    gate._baselines[CPU.key] = tuple(baselines)  # instead of files
    return gate


def stored(*benchmarks: str, number: int = 1) -> Baseline:
    """Return a baseline of three equal sessions of each benchmark."""
    sessions = dict.fromkeys(benchmarks or [TEST], (recorded(),) * 3)
    return Baseline(Path(f"{CPU.key}/{number:04}_a.json"), "2026-11-20T03:04", "abc", sessions)


def decide(gate: Gate) -> dict[str, Outcome]:
    """Benchmark the load time and compare it; return the outcome of each metric."""
    gate.measurer.benchmark(TEST, SUBJECT)
    results = gate.decide(TEST, "load_s_per_batch", SUBJECT)
    return {result.comparison.metric: result.comparison.outcome for result in results}


def test_a_regression_needs_a_second_session() -> None:
    """The regression is compared with the baseline, and kept among the results."""
    gate = gated(costly(), costly(), baselines=[stored()])
    assert decide(gate)["load_cpu_ratio"] is Outcome.REGRESSED
    assert len(gate.measurer.sessions[SUBJECT.full_key]) == 2
    assert {result.benchmark for result in gate.results} == {TEST}


def test_a_waived_regression_leaves_the_other_metrics_open() -> None:
    """Two sessions prove the waived one; the other takes three."""
    now = [recorded(load_cpu_ratio=3.0, load_s=load_s) for load_s in (0.014, 0.016, 0.015)]
    gate = gated(*now, baselines=[stored()], waivers=[WAIVER])
    outcomes = decide(gate)
    assert outcomes["load_cpu_ratio"] is outcomes["load_s_per_batch"] is Outcome.REGRESSED
    assert [result.comparison.metric for result in gate.results if result.fails] == [
        "load_s_per_batch"
    ]


def test_a_device_without_a_baseline_is_named() -> None:
    """The outcome is NO_BASELINE, and fails nothing by itself."""
    gate = gated(recorded())
    assert decide(gate) == {"": Outcome.NO_BASELINE}
    assert CPU.key in gate.results[0].comparison.reason
    assert not gate.results[0].fails


def test_an_older_baseline_holds_what_the_latest_lacks() -> None:
    """The benchmark is compared with the latest baseline that holds it, with one note."""
    gate = gated(recorded(), baselines=[stored(), stored("test_perf.py::test_b", number=2)])
    assert decide(gate)["load_cpu_ratio"] is Outcome.PASS
    decide(gate)
    assert gate.notes == [f"0002_a.json does not hold {TEST}: {TEST} is compared with 0001_a.json"]


def test_lost_benchmarks() -> None:
    """Lost benchmarks are in a baseline, covered by the run, neither produced nor deselected."""
    names = ["test_perf.py::test_b", "test_perf.py::test_c", "test_other.py::test_d"]
    gate = gated(recorded(), baselines=[stored(TEST, *names)])
    gate.selection.deselected = {"test_perf.py::test_c"}
    gate.measurer.benchmark(TEST, SUBJECT)
    assert gate.lost_benchmarks() == ["test_perf.py::test_b"]


def result(quantity: str, outcome: Outcome) -> GateResult:
    """Return a result of one metric."""
    return GateResult(TEST, quantity, Comparison(outcome, "", 1.0, None, ""), None)


@pytest.mark.parametrize(
    ("fails", "outcomes", "nothing"),
    [
        (True, [("step_s", Outcome.PASS)], False),
        (True, [("step_s", Outcome.NOT_COMPARED)], True),
        (False, [("step_s", Outcome.NOT_COMPARED)], False),
        (True, [("step_s", Outcome.NO_BASELINE), ("step_s", Outcome.PASS)], False),
        (True, [("step_s", Outcome.NO_BASELINE), (WORK, Outcome.PASS)], True),
        (True, [(WORK, Outcome.NO_BASELINE), ("step_s", Outcome.PASS)], True),
        (False, [], True),
    ],
)
def test_a_run_that_judged_nothing(
    fails: bool, outcomes: list[tuple[str, Outcome]], nothing: bool
) -> None:
    """Counts of work do not replace times, nor times counts."""
    gate = gated(fail_when_missing=fails)
    gate.results = [result(*each) for each in outcomes]
    assert gate.compares_nothing is nothing


@pytest.mark.parametrize(
    ("measured", "changes", "why"),
    [
        (costly(), {}, None),
        (costly(), {"expires": date(2026, 11, 24)}, "it expired on 2026-11-24"),
        (recorded(), {}, "without it, it is PASS on cpu-testing-4"),
        (recorded(load_cpu_ratio=1.0), {}, "without it, it is IMPROVED on cpu-testing-4"),
        (costly(), {"metric": "step_s"}, "that metric does not decide on the benchmark"),
        (costly(), {"benchmark": "test_perf.py::test_gone"}, "there is no such benchmark"),
        (costly(), {"benchmark": "test_other.py::test_a"}, None),
        (recorded(), {"device": "h200"}, None),
        (recorded(), {"device": "h200", "expires": date(2026, 11, 24)}, None),
    ],
)
def test_superfluous_waivers(
    measured: Measurement, changes: dict[str, Any], why: str | None
) -> None:
    """A waiver that expired, that nothing needs or that fits nothing must be deleted."""
    waiver = replace(WAIVER, **changes)
    gate = gated(measured, measured, baselines=[stored()], waivers=[waiver])
    decide(gate)
    problem = f"baselines/waivers.toml: delete the waiver for {waiver.name}: {why}"
    assert list(gate.waiver_problems()) == ([problem] if why else [])


@pytest.mark.parametrize(
    ("measured", "machine", "is_superfluous"),
    [
        (recorded(load_cpu_ratio=2.1), "", False),
        (recorded(), "", True),
        (recorded(load_s=0.0107), "0123456789abcdef", True),
    ],
)
def test_a_waiver_stays_while_a_wider_bound_hides_its_change(
    measured: Measurement, machine: str, is_superfluous: bool
) -> None:
    """A change that passes on a virtual machine may fail on the next one."""
    host = replace(HOST, machine=machine)
    sessions = (replace(recorded(), host=host, device=H200),) * 3
    baseline = replace(stored(), sessions={TEST: sessions})
    waivers = [WAIVER, replace(WAIVER, metric="load_s_per_batch")]
    now = replace(measured, host=host, device=H200)
    gate = gated(*[now] * 5, baselines=[baseline], waivers=waivers)
    gate._baselines[H200.key] = (baseline,)
    assert set(decide(gate).values()) == {Outcome.PASS}
    assert (len(list(gate.waiver_problems())) == 2) is is_superfluous


def test_a_waived_regression_does_not_fail() -> None:
    """The outcome stays REGRESSED."""
    gate = gated(costly(), costly(), baselines=[stored()], waivers=[WAIVER])
    assert decide(gate)["load_cpu_ratio"] is Outcome.REGRESSED
    assert not any(found.fails for found in gate.results)


@pytest.mark.parametrize(
    ("changes", "base", "duet", "outcome"),
    [
        ({}, "0001_a.json", Outcome.PASS, Outcome.NOT_COMPARED),
        ({}, "0001_a.json", Outcome.REGRESSED, Outcome.REGRESSED),
        ({}, "0002_b.json", Outcome.PASS, Outcome.REGRESSED),
        ({"dirty": True}, "0001_a.json", Outcome.PASS, Outcome.REGRESSED),
        ({"commit": "def"}, "0001_a.json", Outcome.PASS, Outcome.REGRESSED),
    ],
    ids=["machine", "code", "another baseline", "changed tree", "another commit"],
)
def test_duets_with_the_commit_of_a_baseline_dismiss_its_alarm(
    changes: dict[str, Any], base: str, duet: Outcome, outcome: Outcome
) -> None:
    """The machine has changed if the commit of that baseline is as slow now."""
    alarm = Comparison(Outcome.REGRESSED, "step_s", 3.0, 1.0, "why", baseline=f"{CPU.key}/{base}")
    beside = Comparison(duet, "step_s", 3.0, 3.0, "why")
    both = [GateResult(TEST, "step_s", found, recorded()) for found in (alarm, beside)]
    found = dismiss_machine_alarm(both[0], both[1:], "abc", [replace(stored(), **changes)])
    assert found.comparison.outcome is outcome


WORST_FIRST = [
    "REGRESSED", "INCONCLUSIVE", "waived", "IMPROVED", "PASS", "NOT_COMPARED", "NO_BASELINE"
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(WORST_FIRST)))
def test_the_worst_result_decides(place: int) -> None:
    """A waived regression hides no other one, and is hidden by nothing that passes."""

    def make(name: str) -> GateResult:
        made = result("step_s", Outcome("REGRESSED" if name == "waived" else name))
        return replace(made, waiver=WAIVER if name == "waived" else None)

    worst, *others = map(make, WORST_FIRST[place:])
    assert find_worst([*others, worst]) is worst


def test_only_a_test_that_would_have_been_collected_is_removed(tmp_path: Path) -> None:
    """A file that was ignored, or that --lf passed over, may still hold its tests."""
    tmp_path.joinpath("test_ignored.py").touch()
    tests = ["test_ignored.py::test_a", "test_here.py::test_b", "test_gone.py::test_c"]
    selection = Selection(tmp_path, lambda _: True, selected={"test_here.py::test_other"})
    assert selection.find_removed(tests, ["test_here.py::test_other"]) == tests[1:]
    assert not Selection(tmp_path, lambda _: True, is_partial=True).find_removed(tests, [])
