"""The message of a regression, in the terminal and in JUnit."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from netpipe.gate import metrics
from netpipe.gate.baseline import Baseline
from netpipe.gate.comparison import BaselineSessions, compare
from netpipe.plugin.gate_results import GateResult, junit_properties, render_failure
from netpipe.results.measurement import Measurement
from tests.plugin.project import Project
from tests.plugin.recorded import H200, HOST, costlier, costly, recorded

NAME = "test_perf.py::test_load_time"
FOLDER = Path("/home/me/project/baselines/h200-x1")
COMMAND = "pytest here"
HEALTHY = "healthy: loading a batch takes 10 ms, the step 30 ms: headroom 3.00"


def held(number: int, *sessions: Measurement, benchmark: str = NAME) -> Baseline:
    """Return a baseline of these sessions."""
    path = FOLDER / f"{number:04}_night.json"
    return Baseline(
        path, f"2026-11-2{number}T03:04:05", f"{number}bcdef0123456789", {benchmark: sessions}
    )


FIRST, LATEST = held(1, *[recorded()] * 3), held(2, *[recorded(load_cpu_ratio=2.02)] * 3)


def failed(
    now: Measurement,
    quantity: str = "load_s_per_batch",
    baselines: Sequence[Baseline] = (FIRST, LATEST),
) -> GateResult:
    """Compare two equal sessions with the baselines."""
    first, *_, latest = (
        BaselineSessions(
            f"h200-x1/{baseline.path.name}",
            [replace(session, device=now.device) for session in baseline.sessions.get(NAME, ())],
        )
        for baseline in (baselines[0], *baselines)
    )
    earlier = [first] if len(baselines) > 1 else []
    return GateResult(NAME, quantity, compare(quantity, [now, now], latest, earlier), now)


def lines(now: Measurement, quantity: str = "load_s_per_batch") -> dict[str, str]:
    """Return the lines of a failure, by their first word."""
    _, *others = render_failure([failed(now, quantity)], (FIRST, LATEST), COMMAND).splitlines()
    named = [line.split(":", 1) for line in others]
    assert len(dict(named)) == len(named)
    return {name: rest.strip() for name, rest in named}


def test_the_history_has_only_baselines_with_the_metric() -> None:
    """Older files lack some metrics: their figure is not 0."""
    first = held(1, *[replace(recorded(), peak_pss_bytes=None)] * 3)
    result = failed(replace(recorded(), peak_pss_bytes=800_000_000), baselines=(first, FIRST))
    assert result.comparison.metric == "peak_pss_bytes"
    message = render_failure([result], (first, held(2, *[recorded()] * 3)), COMMAND)
    assert "history:   0002 400 MB\n" in message


def test_the_figures_come_first_then_why_then_how() -> None:
    """Metric, value, interval, bound, baseline, history, verdict and the command, in this order."""
    assert render_failure([failed(costly())], (FIRST, LATEST), COMMAND).splitlines() == [
        "REGRESSED: load_cpu_ratio is 1.49 x that of h200-x1/0002_night.json (bound 1.03)",
        "metric:    load_cpu_ratio, lower is better",
        "value:     3, the baseline 2.02 (medians over sessions)",
        "worse by:  1.485 (1.468 to 1.502) over 2 sessions; bound 1.030",
        f"baseline:  {FOLDER}/0002_night.json, commit 2bcdef012345, 2026-11-22T03:04",
        "history:   0001 2, 0002 2.02",
        f"verdict:   {HEALTHY}; next: nothing",
        "machine:   other programs took 0.0% of the host's CPU time",
        "again:     pytest here",
    ]


def test_the_first_line_fits_the_short_summary() -> None:
    """Outcome, metric, factor, baseline and bound fit into 100 characters for each metric."""
    long = [
        render_failure([failed(waiting, quantity)], (FIRST, LATEST), COMMAND).splitlines()[0]
        for quantity, waiting in {
            "load_s_per_batch": recorded(load_s=1.0),
            "step_s": recorded(step_s=1.0, device=H200),
            "train_s_per_step": replace(recorded(), sync_probe_fraction=1.0),
        }.items()
    ]
    assert all(line.startswith("REGRESSED: ") and "(bound " in line for line in long)
    assert max(map(len, long)) <= 100


@pytest.mark.parametrize(
    ("quantity", "now", "value", "metric"),
    [
        (
            "load_s_per_batch",
            recorded(load_s=0.0234),
            "23.4 ms, the baseline 10 ms (medians over sessions)",
            "load_s_per_batch, lower is better",
        ),
        (
            "train_s_per_step",
            recorded(train_s=0.060, device=H200),
            "0.5, the baseline 1 (medians over sessions)",
            "accelerator_utilisation, higher is better",
        ),
        (
            "train_s_per_step",
            replace(recorded(), sync_probe_fraction=0.9),
            "0.9, the baseline 0 (medians over sessions)",
            "sync_probe_fraction, lower is better",
        ),
    ],
)
def test_values_have_their_unit_and_direction(
    quantity: str, now: Measurement, value: str, metric: str
) -> None:
    """Values have their unit, and the metric has its direction."""
    said = lines(now, quantity)
    assert (said["value"], said["metric"]) == (value, metric)


def test_drift_names_the_first_baseline() -> None:
    """The message has its file, commit and date, and the history in between."""
    found = failed(recorded(load_cpu_ratio=2.24), baselines=(FIRST, held(2, *[costlier()] * 3)))
    drift = replace(found, comparison=found.comparison.metrics[-1])
    baselines = (FIRST, held(2, *[costlier()] * 3))
    said = render_failure([drift], baselines, COMMAND)
    assert re.search(rf"baseline: +{FOLDER}/0001_night.json.* 1bcdef012345.* 2026-11-21", said)
    assert "history:   0001 2, 0002 2.12" in said


def test_versions_that_changed_are_a_suspicion() -> None:
    """Each version that differs is listed, as before and now."""
    assert "versions" not in lines(costly())
    now = {"python": "3.11", "grain": "0.3.0", "jax": "0.10.2"}
    said = lines(replace(costly(), versions={**now, "python": "3.12"}))
    assert said["versions"].split(", ") == [
        "python 3.11 -> 3.12",
        "grain none -> 0.3.0",
        "jax none -> 0.10.2",
    ]


def test_the_verdict_says_what_to_do() -> None:
    """The message has the verdict with its remedy, and the load of the machine."""
    slow = replace(recorded(load_s=0.060, train_s=0.060), busy_elsewhere_fraction=0.25)
    said = lines(slow)
    assert said["verdict"].startswith("loader-bound: ")
    assert "60 ms" in said["verdict"]
    assert "next: make loading" in said["verdict"]
    assert "25.0%" in said["machine"]


# ---- The command that repeats it


@pytest.fixture
def failing(project: Project) -> Project:
    """A project whose loader takes half as much CPU time again as its baseline."""
    project.record()
    project.sessions = [costly()]
    return project


def repeating(result: pytest.RunResult) -> list[str]:
    """Return the words of the command that repeats a failure.

    pytest's short summary has the message a second time where it runs in CI.
    """
    (line,) = {line for line in result.outlines if line.startswith("again: ")}
    return shlex.split(line.partition(":")[2])


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ((), []),
        (("-x", "-k", "load", "--junitxml", "junit.xml", "-n0"), []),
        (("-m", "not slow"), ["-m", "not slow"]),
        (("--netpipe-baselines", "my baselines"), ["--netpipe-baselines", "my baselines"]),
        (("test_perf.py", "-p", "no:cacheprovider"), ["-p", "no:cacheprovider"]),
    ],
)
def test_the_command_fails_again_when_pasted(
    failing: Project, arguments: tuple[str, ...], kept: list[str]
) -> None:
    """The command runs that benchmark alone, with the needed flags, and gives the same result."""
    failing.has("def test_other(): assert False", "test_other")
    if "my baselines" in arguments:
        (failing.pytester.path / "baselines").rename(failing.pytester.path / "my baselines")
    program, *words = repeating(failing.compare(*arguments))
    assert (program, words) == ("pytest", [NAME, "--benchmark-compare", *kept])
    again = failing.run(*words)
    again.assert_outcomes(failed=1)
    assert repeating(again) == ["pytest", *words]


def test_the_command_quotes_what_a_shell_would_read(failing: Project) -> None:
    """A parameter with a space and brackets is one word."""
    failing.has(
        """
    import pytest

    @pytest.mark.parametrize("of", ["a b;c"])
    def test_load_time(netpipe_benchmark, of):
        netpipe_benchmark("load_s_per_batch")
"""
    )
    failing.record()
    failing.sessions = [costly()]
    _, name, *_ = repeating(failing.compare())
    assert name == f"{NAME}[a b;c]"
    failing.compare(name).assert_outcomes(failed=1)


@pytest.mark.parametrize("ci", ["", "true"])
def test_the_message_is_whole_and_without_a_trace(
    failing: Project, monkeypatch: pytest.MonkeyPatch, ci: str
) -> None:
    """The terminal shows it under the test's name, and its first line in the short summary."""
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("CI", ci)
    result = failing.compare()
    result.assert_outcomes(failed=1)
    reason = "load_cpu_ratio is 1.50 x that of cpu-testing-4/0001_first.json (bound 1.03)"
    result.stdout.fnmatch_lines([
        f"REGRESSED: {reason}",
        "metric:    load_cpu_ratio, lower is better",
        "value:     3, the baseline 2 (medians over sessions)",
        "worse by:  1.500 (* to *) over 2 sessions; bound 1.030",
        "baseline:  */baselines/cpu-testing-4/0001_first.json, commit 0123456789, 20*",
        "history:   0001 2",
        "verdict:   healthy: *",
        "again:     pytest test_perf.py::test_load_time --benchmark-compare",
        f"FAILED test_perf.py::test_load_time - *REGRESSED: {reason}*",
    ])  # fmt: skip
    result.stdout.no_fnmatch_line("*Traceback*")


# ---- JUnit


def junit(project: Project) -> tuple[dict[str | None, str | None], Any]:
    """Compare; return the properties of the benchmark in JUnit's file, and its failure."""
    project.compare("--junitxml", "junit.xml")
    (case,) = ElementTree.parse(project.pytester.path / "junit.xml").iter("testcase")
    said = {entry.get("name"): entry.get("value") for entry in case.iter("property")}
    return said, case.find("failure")


SAID = {
    "netpipe_device": "cpu-testing-4",
    "netpipe_verdict": "healthy",
    "netpipe_verdict_message": HEALTHY,
    "netpipe_metric": "load_cpu_ratio",
    "netpipe_unit": "",
    "netpipe_baseline": "cpu-testing-4/0001_first.json",
    "netpipe_baseline_value": "2.0",
}


@pytest.mark.parametrize(("ratio", "sessions"), [(3.0, 2), (2.0, 1)])
def test_junit_has_the_figures(failing: Project, ratio: float, sessions: int) -> None:
    """A regression and a pass have the same properties; a regression has a failure element."""
    failing.sessions = [recorded(load_cpu_ratio=ratio)]
    found, failure = junit(failing)
    assert float(found.pop("netpipe_worse") or 0) == pytest.approx(ratio / 2)
    assert float(found.pop("netpipe_bound") or 0) == pytest.approx(1.03)
    assert found == {
        **SAID,
        "netpipe_outcome": "REGRESSED" if sessions == 2 else "PASS",
        "netpipe_value": str(ratio),
        "netpipe_sessions": str(sessions),
    }
    assert (failure is not None) is (sessions == 2)
    if failure is not None:
        assert "REGRESSED: load_cpu_ratio is 1.50" in failure.get("message")
        assert f"pytest {NAME}" in failure.text


@pytest.mark.parametrize(
    ("measured", "outcome"),
    [
        (recorded(load_cpu_ratio=1.0), "IMPROVED"),
        (recorded(device=H200), "NO_BASELINE"),
        (replace(recorded(), host=replace(HOST, cpu="Another CPU")), "NOT_COMPARED"),
    ],
)
def test_junit_has_every_outcome(failing: Project, measured: Measurement, outcome: str) -> None:
    """One property has the outcome of a comparison that was not judged too."""
    failing.sessions = [measured]
    assert junit(failing)[0]["netpipe_outcome"] == outcome


@pytest.mark.parametrize("quantity", metrics.GATED)
def test_properties_are_of_the_metric_that_decided(quantity: str) -> None:
    """The properties include the metric's unit and its number of sessions."""
    slow = recorded(load_s=0.1, step_s=0.3, train_s=0.9, device=H200)
    found = failed(slow, quantity)
    said = dict(junit_properties(found.comparison))
    assert said["netpipe_metric"] == found.comparison.metric
    assert said["netpipe_unit"] == metrics.METRICS[found.comparison.metric].unit
    assert (said["netpipe_sessions"], said["netpipe_value"]) == (2, found.comparison.now)
