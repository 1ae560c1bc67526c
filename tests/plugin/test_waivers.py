"""Accepted slowdowns: they pass under a waiver, are shown, and fail the run once superfluous."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.plugin.project import LOAD_TIME, Project, line_with
from tests.plugin.recorded import HOST, costly, recorded
from tests.repository import commit, init

ITSELF = "load_cpu_ratio in test_perf.py::test_load_time"
DELETE = f"baselines/waivers.toml: delete the waiver for {ITSELF}"
REASON = "load_cpu_ratio is 1.50 x that of cpu-testing-4/0001_first.json (bound 1.03)"
WAIVED = "REGRESSED, waived until 2999-12-31: decodes IPv6"


def waive(
    project: Project, bound: float = 1.6, expires: str = "2999-12-31", more: str = ""
) -> Path:
    """Accept a higher CPU time of loading."""
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
    """A project whose loader takes half as much CPU time again as its baseline."""
    project.record()
    project.sessions = [costly()]
    return project


def test_a_waived_regression_does_not_fail(slower: Project) -> None:
    """The outcome stays REGRESSED everywhere, with the last day and the reason beside it."""
    waive(slower)
    result = slower.compare("--junitxml", "junit.xml", "--netpipe-json", "run.json")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines([
        f"*test_load_time*1.50 x*{WAIVED}*",
        f"{WAIVED}; {REASON}",
    ])  # fmt: skip
    assert len(slower.requests) == 2
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


@pytest.mark.parametrize(
    ("waiver", "words"),
    [
        ({"bound": 1.4}, ["1.4 x"]),
        ({"expires": "2020-01-01"}, ["2020-01-01"]),
        ({"more": 'device = "h200"'}, []),
    ],
)
def test_a_waiver_that_does_not_cover_it_fails(
    slower: Project, waiver: dict[str, str], words: list[str]
) -> None:
    """A regression beyond the bound, after the last day or on another device fails."""
    waive(slower, **waiver)  # type: ignore[arg-type]
    result = slower.compare()
    result.assert_outcomes(failed=1)
    line_with(result, f"REGRESSED: {REASON}", *words)


@pytest.mark.parametrize(
    ("ratio", "expires", "why"),
    [(2.0, "2020-01-01", "expired on 2020-01-01"), (2.0, "2999-12-31", "PASS on cpu-testing-4")],
)
def test_a_superfluous_waiver_fails_the_run(
    slower: Project, monkeypatch: pytest.MonkeyPatch, ratio: float, expires: str, why: str
) -> None:
    """The tests pass; the summary and GitHub get the waiver to delete."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    waive(slower, expires=expires)
    slower.sessions = [recorded(load_cpu_ratio=ratio)]
    result = slower.compare()
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line_with(result, DELETE, why)
    line_with(result, f"::error file=baselines/waivers.toml,title=waiver::{DELETE}", why)


@pytest.mark.parametrize("choice", [("-k", "other"), ("test_other.py",)], ids=["k", "file"])
def test_a_waiver_of_a_test_that_did_not_run_stays(
    slower: Project, choice: tuple[str, ...]
) -> None:
    """The benchmark of a test that did not run may need its waiver."""
    waive(slower)
    slower.has(LOAD_TIME.replace("test_load_time", "test_other"), "test_other")
    slower.sessions = [recorded()]
    assert slower.compare(*choice).ret == pytest.ExitCode.OK


def test_a_waiver_stays_if_its_metric_was_not_judged(slower: Project) -> None:
    """CPU time is not compared with a host of another class."""
    waive(slower)
    slower.sessions = [replace(recorded(), host=replace(HOST, cpu="Another CPU"))]
    assert slower.compare().ret == pytest.ExitCode.OK


def test_a_damaged_file_is_a_usage_error(slower: Project) -> None:
    """The run ends before anything is measured."""
    waive(slower, bound=0.9)
    result = slower.compare()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR", "/baselines/waivers.toml", "bound of waiver 1")
    assert not slower.requests


def test_a_regression_against_a_commit_is_waived(
    slower: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run without baselines reads the waivers, shows new ones, and needs no merge base."""
    monkeypatch.setenv("CI_MERGE_REQUEST_DIFF_BASE_SHA", "0" * 40)
    init(slower.pytester.path)
    commit(slower.pytester.path)
    waive(slower)
    sessions = [costly(), *[recorded(), costly()] * 3]
    slower.sessions = [*sessions]
    result = slower.run("--netpipe-against", "HEAD")
    assert result.ret == pytest.ExitCode.OK
    line_with(result, "test_load_time", "1.50 x", "REGRESSED against HEAD, waived until 2999-12-31")
    line_with(result, "waiver added by this change", ITSELF)
    result.stdout.no_fnmatch_line("*baselines of*")
    waive(slower, expires="2020-01-01")
    slower.sessions = sessions
    result = slower.run("--netpipe-against", "HEAD")
    result.assert_outcomes(failed=1)
    line_with(result, "REGRESSED against HEAD", "its waiver expired on 2020-01-01")
    slower.sessions = [recorded()]
    assert slower.run("--netpipe-against", "HEAD").ret == pytest.ExitCode.OK


def test_a_run_that_compares_nothing_reads_no_waivers(slower: Project) -> None:
    """An expired waiver does not fail it."""
    waive(slower, expires="2020-01-01")
    assert slower.run().ret == pytest.ExitCode.OK


@pytest.mark.parametrize("before", ["damaged", "the same", None])
def test_a_new_waiver_is_shown(
    slower: Project, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    """A waiver counts at once; summary, JSON and GitHub name one that the commit does not have."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    path = waive(slower)
    text = path.read_text()
    path.write_text({"damaged": "[", "the same": text, None: ""}[before])
    init(slower.pytester.path)
    commit(slower.pytester.path)
    path.write_text(text)
    result = slower.compare("--netpipe-baselines-at", "HEAD", "--netpipe-json", "run.json")
    assert result.ret == pytest.ExitCode.OK
    (waiver,) = slower.read_json("run.json")["accepted"]["waivers"]
    assert waiver["is_added"] is (before != "the same")
    assert ("waiver added" in result.stdout.str()) is waiver["is_added"]
    if waiver["is_added"]:
        line_with(result, "waiver added", ITSELF, "1.6 x", "2999-12-31")
        line_with(result, "::warning file=baselines/waivers.toml,title=waiver added", ITSELF)
