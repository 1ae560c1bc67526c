"""Accepted slowdowns: they pass under a waiver, are shown, and fail once it has to go."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.plugin.project import LOAD_TIME, Project, line_with
from tests.plugin.recorded import HOST, costly, recorded
from tests.repository import commit, init

ITSELF = "load_cpu_ratio in test_perf.py::test_load_time"
DELETE = f"baselines/waivers.toml: delete the waiver of {ITSELF}"
REASON = "load_cpu_ratio is 1.50 x that of cpu-testing-4/0001_first.json (bound 1.03)"
WAIVED = "REGRESSED, waived until 2999-12-31: decodes IPv6"


def waive(
    project: Project, bound: float = 1.6, expires: str = "2999-12-31", more: str = ""
) -> Path:
    """Accept that the load time's CPU is worse."""
    path = project.pytester.path / "baselines" / "waivers.toml"
    path.write_text(f"""
        [[waiver]]
        benchmark = "test_perf.py::test_load_time"
        metric = "load_cpu_ratio"
        bound = {bound}
        reason = "decodes IPv6"
        expires = {expires}
        {more}
    """)
    return path


@pytest.fixture
def slower(project: Project) -> Project:
    """A project whose loader costs half as much again as its baseline says."""
    project.record()
    project.sessions = [costly()]
    return project


def test_a_waived_regression_does_not_fail(slower: Project) -> None:
    """It is shown as what it is, with the last day and the reason."""
    waive(slower)
    result = slower.compare()
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines([
        f"*test_load_time*1.50 x*{WAIVED}*",
        f"{WAIVED}; {REASON}",
    ])  # fmt: skip
    result.stdout.no_fnmatch_line("*load_cpu_ratio *PASS*")
    assert len(slower.requests) == 2


def test_junit_and_json_say_it_too(slower: Project) -> None:
    """The outcome stays REGRESSED, with the waiver beside it."""
    waive(slower)
    slower.compare("--junitxml", "junit.xml", "--netpipe-json", "run.json")
    case = next(ElementTree.parse(slower.pytester.path / "junit.xml").iter("testcase"))
    properties = {entry.get("name"): entry.get("value") for entry in case.iter("property")}
    assert properties["netpipe_outcome"] == "REGRESSED"
    assert properties["netpipe_waiver"] == WAIVED.removeprefix("REGRESSED, ")
    document = slower.read_json("run.json")
    waiver = {
        "benchmark": "test_perf.py::test_load_time", "metric": "load_cpu_ratio", "bound": 1.6,
        "reason": "decodes IPv6", "expires": "2999-12-31", "device": "",
    }  # fmt: skip
    cost, time, *_ = document["comparisons"]
    assert (cost["outcome"], cost["waiver"]) == ("REGRESSED", waiver)
    assert (time["outcome"], time["waiver"]) == ("PASS", None)
    assert document["accepted"]["waivers"] == [{**waiver, "is_added": False}]


def test_beyond_its_bound_it_fails(slower: Project) -> None:
    """In two sessions, and with both bounds."""
    waive(slower, bound=1.4)
    result = slower.compare()
    result.assert_outcomes(failed=1)
    line_with(result, f"REGRESSED: {REASON}", "waiver", "1.4 x")
    result.stdout.no_fnmatch_line("*delete*")
    assert len(slower.requests) == 2


def test_an_expired_waiver_fails(slower: Project) -> None:
    """Test and run, and says what to delete."""
    waive(slower, expires="2020-01-01")
    result = slower.compare()
    result.assert_outcomes(failed=1)
    line_with(result, f"REGRESSED: {REASON}", "waiver", "2020-01-01")
    line_with(result, DELETE, "2020-01-01")


def test_an_expired_waiver_fails_the_run_alone(slower: Project) -> None:
    """Also where nothing regressed any more."""
    waive(slower, expires="2020-01-01")
    slower.sessions = [recorded()]
    result = slower.compare()
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize(("ratio", "outcome"), [(2.0, "PASS"), (1.0, "IMPROVED")])
def test_a_waiver_that_nothing_needs_fails(slower: Project, ratio: float, outcome: str) -> None:
    """It would hide the next regression."""
    waive(slower)
    slower.sessions = [recorded(load_cpu_ratio=ratio)]
    result = slower.compare()
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line_with(result, DELETE, outcome, "cpu-testing-4")
    result.stdout.no_fnmatch_line("*its waiver*")


def test_a_waiver_of_no_benchmark_fails(slower: Project) -> None:
    """Where the run covers the file that it would be in."""
    waive(slower)
    slower.has(LOAD_TIME.replace("test_load_time", "test_renamed"))
    result = slower.compare()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line_with(result, DELETE, "no such benchmark")


def test_a_waiver_of_a_metric_that_is_not_held_fails(slower: Project) -> None:
    """It can never be needed."""
    path = waive(slower)
    path.write_text(path.read_text().replace("load_cpu_ratio", "step_s"))
    result = slower.compare()
    line_with(result, "delete", "step_s", "metric")


@pytest.mark.parametrize("choice", [("-k", "other"), ("test_other.py",)], ids=["k", "file"])
def test_a_waiver_of_what_was_not_run_is_left_alone(
    slower: Project, choice: tuple[str, ...]
) -> None:
    """Its benchmark may need it."""
    waive(slower)
    slower.has(LOAD_TIME.replace("test_load_time", "test_other"), "test_other")
    slower.sessions = [recorded()]
    assert slower.compare(*choice).ret == pytest.ExitCode.OK


@pytest.mark.parametrize("expires", ["2020-01-01", "2999-12-31"])
def test_a_waiver_of_another_device_is_left_alone(slower: Project, expires: str) -> None:
    """Expired or unused, it is for the runs there to say."""
    waive(slower, expires=expires, more='device = "h200"')
    slower.sessions = [recorded()]
    result = slower.compare()
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*delete*")


def test_a_waiver_of_another_device_covers_nothing(slower: Project) -> None:
    """The regression is this device's."""
    waive(slower, more='device = "h200"')
    slower.compare().assert_outcomes(failed=1)


def test_a_waiver_is_left_alone_where_its_metric_is_not_held(slower: Project) -> None:
    """On a host of another class nothing is said of its CPU time, so nobody knows."""
    waive(slower)
    slower.sessions = [replace(recorded(), host=replace(HOST, cpu="Another CPU"))]
    assert slower.compare().ret == pytest.ExitCode.OK


def test_a_damaged_file_is_a_usage_error(slower: Project) -> None:
    """Before anything is measured."""
    waive(slower, bound=0.9)
    result = slower.compare()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR", "/baselines/waivers.toml", "bound of waiver 1")
    assert not slower.requests


def test_a_run_that_compares_nothing_asks_for_no_waiver(slower: Project) -> None:
    """It is not the one that they are for."""
    waive(slower, expires="2020-01-01")
    assert slower.run().ret == pytest.ExitCode.OK


def test_a_new_waiver_is_shown(slower: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts at once, and a reviewer sees it in the summary, and in GitHub's warnings."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    init(slower.pytester.path)
    commit(slower.pytester.path)
    waive(slower)
    result = slower.compare("--netpipe-baselines-at", "HEAD", "--netpipe-json", "run.json")
    assert result.ret == pytest.ExitCode.OK
    assert line_with(result, ITSELF, "1.6 x", "2999-12-31").startswith("waiver added")
    line_with(result, "::warning file=baselines/waivers.toml,title=waiver added", ITSELF, "1.6 x")
    (waiver,) = slower.read_json("run.json")["accepted"]["waivers"]
    assert waiver["is_added"]


@pytest.mark.parametrize("before", ["damaged", "the same"])
def test_a_waiver_is_new_or_not(slower: Project, before: str) -> None:
    """One that was accepted is not told of; where the file could not be read, all are new."""
    path = waive(slower)
    text = path.read_text()
    path.write_text("[" if before == "damaged" else text)
    init(slower.pytester.path)
    commit(slower.pytester.path)
    path.write_text(text)
    result = slower.compare("--netpipe-baselines-at", "HEAD")
    assert result.ret == pytest.ExitCode.OK
    assert ("waiver added" in result.stdout.str()) is (before == "damaged")


def test_github_gets_the_waiver_to_delete(slower: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an error at the file."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    waive(slower, expires="2020-01-01")
    slower.sessions = [recorded()]
    where = "file=baselines/waivers.toml,title=waiver"
    assert f"::error {where}::{DELETE}: it expired on 2020-01-01" in slower.compare().outlines
