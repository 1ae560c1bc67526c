"""Tests that count work: compared with the baseline of work, or with another version."""

from dataclasses import replace
from textwrap import dedent
from typing import Any
from xml.etree import ElementTree

import pytest

from netpipe.errors import NoSuchTestError
from netpipe.reporting.parts import build_parts
from netpipe.reporting.tables import Table
from tests.plugin.project import LOAD_TIME, Project, line_with, lost
from tests.plugin.recorded import recorded
from tests.repository import commit_files
from tests.work_profiles import PROFILE, VERSIONS, make_profile, with_calls, with_count

TEST = """
    from netpipe.testing import expect_no_more_work

    def test_work(netpipe_work):
        assert netpipe_work.profile.batches == 16
        expect_no_more_work(netpipe_work)
"""
KEY = "python3.11.7-grain0.2.18-jax0.10.2-arrayrecord0.8.3"
MORE_SENT = with_count("sent_bytes", total=3_100_000.0)
WAIVER = """
[[waiver]]
benchmark = "test_perf.py::test_work"
metric = "sent_bytes"
bound = {bound}
reason = "wider batches, on purpose"
expires = 2999-12-31
"""


@pytest.fixture
def working(project: Project) -> Project:
    """A project with a test of work, and a recorded baseline of it."""
    project.has(TEST)
    result = project.run("--netpipe-record", "first")
    assert result.ret == pytest.ExitCode.OK
    project.commands.clear()
    return project


def test_equal_work_passes(working: Project) -> None:
    """One row stands for all kinds of work; one count serves all of them."""
    result = working.compare("--netpipe-json", "run.json")
    result.assert_outcomes(passed=1)
    line_with(result, "test_work", "4 kinds of work", "PASS")
    line_with(result, "work per batch: calls 387")
    assert len(working.commands) == 1
    document = working.read_json("run.json")
    assert {row["quantity"] for row in document["comparisons"]} == {"work"}
    assert document["comparisons"][0]["device"] is None
    (counted,) = document["work"]
    assert counted.pop("test").endswith("::test_work")
    assert counted == PROFILE.to_document()


def test_another_test_than_the_baseline_s_says_so(working: Project) -> None:
    """There is a baseline, but not of this test."""
    working.has(TEST.replace("test_work", "test_more_work"))
    line_with(working.compare(), "NO_BASELINE", "0001_first.json has no such test")


def test_a_rise_of_one_part_has_its_own_figure_on_the_page(project: Project) -> None:
    """The ratio of the totals would read 1.00 x beside REGRESSED."""
    project.has(TEST)
    calls = {"rows.batch": {"": 1.0}, "builtins.len": {"rows.batch": 5_200.0}}
    project.profiles = [with_calls(calls)]
    project.run("--netpipe-record", "first")
    project.profiles = [with_calls({**calls, "rows.batch": {"": 2.0}})]
    project.compare("--netpipe-json", "run.json")
    part, *_ = build_parts(project.read_json("run.json"))
    (table,) = (card for card in part.cards if isinstance(card, Table))
    changes = {row["outcome"].text: row["now / before"].text for row in table.rows}
    assert changes == {"REGRESSED": "+1 call in one part", "PASS": "1.00 x"}


@pytest.mark.parametrize(
    ("before", "now", "shown"), [(60.0, 120.0, "2.00 x"), (0.0, 40.0, "+40 B")]
)
def test_a_few_bytes_more_have_their_own_row(
    project: Project, before: float, now: float, shown: str
) -> None:
    """They pass, although they are many times as many as before; no factor tells a rise from 0."""
    project.has(TEST)
    project.profiles = [with_count("read_bytes", total=before)]
    project.run("--netpipe-record", "first")
    project.profiles = [with_count("read_bytes", total=now)]
    line_with(project.compare(), "read_bytes", shown, "PASS")


def test_a_stray_baseline_does_not_hide_more_work(working: Project) -> None:
    """Counts of work have no device, so files of devices do not matter to them."""
    stray = working.pytester.path / "baselines" / "old.json"
    stray.write_text('{"netpipe": {"schema": "netpipe.baseline/1"}}')
    working.profiles = [MORE_SENT]
    result = working.compare()
    line_with(result, "a batch crosses processes as 3.1 MB instead of 260 kB")
    result.stdout.no_fnmatch_line("*old.json*")


def test_more_work_fails_and_names_its_cause(working: Project) -> None:
    """The message has the figures, and JUnit has the kind."""
    working.profiles = [MORE_SENT]
    result = working.compare("--junitxml", "junit.xml")
    result.assert_outcomes(failed=1)
    line_with(result, "a batch crosses processes as 3.1 MB instead of 260 kB")
    line_with(result, "test_work", "sent_bytes", "11.92 x", "REGRESSED")
    case = next(ElementTree.parse(working.pytester.path / "junit.xml").iter("testcase"))
    properties = {entry.get("name"): entry.get("value") for entry in case.iter("property")}
    assert properties["netpipe_metric"] == "sent_bytes"
    assert properties["netpipe_outcome"] == "REGRESSED"
    assert properties["netpipe_unit"] == "B"


@pytest.mark.parametrize(("bound", "passed"), [(12.0, 1), (11.0, 0)])
def test_an_intended_rise_is_waived(working: Project, bound: float, passed: int) -> None:
    """A rise up to the waiver's bound passes."""
    waivers = working.pytester.path / "baselines" / "waivers.toml"
    waivers.write_text(WAIVER.format(bound=bound))
    working.profiles = [MORE_SENT]
    working.compare().assert_outcomes(passed=passed, failed=1 - passed)


@pytest.mark.parametrize(
    ("arguments", "outcomes"),
    [((), {"passed": 1}), (("--netpipe-missing", "fail"), {"failed": 1})],
)
def test_another_minor_version_of_python_has_no_baseline(
    working: Project, arguments: tuple[str, ...], outcomes: dict[str, int]
) -> None:
    """The outcome is NO_BASELINE, which fails with --netpipe-missing fail."""
    working.profiles = [make_profile(versions={"python": "3.13.1"})]
    result = working.compare(*arguments)
    result.assert_outcomes(**outcomes)
    line_with(result, "NO_BASELINE", "there is no baseline of work for python3.13.1")


def test_the_nearest_versions_serve(working: Project) -> None:
    """With another patch release, the own code is compared, and a line names the versions."""
    working.profiles = [make_profile(versions={**VERSIONS, "grain": "0.2.19"})]
    result = working.compare()
    result.assert_outcomes(passed=1)
    line_with(result, "test_work", "4 kinds of work", "PASS")
    line_with(result, "other versions (grain 0.2.19 instead of 0.2.18)", "--netpipe-record")


def test_other_versions_do_not_serve_a_gate(working: Project) -> None:
    """With --netpipe-missing fail, a baseline of other versions is a missing one."""
    working.profiles = [make_profile(versions={**VERSIONS, "grain": "0.2.19"})]
    result = working.compare("--netpipe-missing", "fail")
    result.assert_outcomes(failed=1)
    line_with(result, "NO_BASELINE", "there is no baseline of work for python3.11.7-grain0.2.19")


def test_a_local_baseline_of_work(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--netpipe-record local` keeps counts of work too, and CI does not read them."""
    monkeypatch.delenv("CI", raising=False)
    project.has(TEST)
    assert project.run("--netpipe-record", "local").ret == pytest.ExitCode.OK
    line_with(project.compare(), "test_work", "4 kinds of work", "PASS")
    monkeypatch.setenv("CI", "true")
    line_with(project.compare(), "NO_BASELINE", "there is no baseline of work for python3.11.7")


def test_other_data_are_not_compared(working: Project) -> None:
    """Every kind is NOT_COMPARED, and never PASS."""
    working.profiles = [make_profile(fingerprint="other")]
    result = working.compare("--netpipe-missing", "fail")
    result.assert_outcomes(failed=1)
    line_with(result, "NOT_COMPARED", "other data or another configuration")


def test_a_run_that_does_not_compare_only_counts(working: Project) -> None:
    """Without --benchmark-compare the counts are printed, and nothing fails."""
    working.profiles = [MORE_SENT]
    result = working.run()
    result.assert_outcomes(passed=1)
    line_with(result, "not compared with a baseline")


def test_another_version_is_counted_too(working: Project) -> None:
    """--netpipe-against counts the ref in its checkout, and compares without any baseline."""
    commit_files(working.pytester.path, {})
    doubled = with_calls({"rows.batch": {"": 1.0}, "rows.encode": {"rows.batch": 800.0}})
    working.profiles = [doubled, PROFILE]
    result = working.run("--netpipe-against", "HEAD")
    result.assert_outcomes(failed=1)
    line_with(result, "REGRESSED against HEAD", "801 calls per batch instead of 387")
    line_with(result, "rows.encode: 800 calls per batch instead of 128")
    assert [place.folder is not None for place in working.places[-2:]] == [False, True]


def test_ranges_that_lie_apart_are_counted_again(working: Project) -> None:
    """Both versions are counted in one more process, whose ranges overlap."""
    commit_files(working.pytester.path, {})
    ends = [(5.0, 6.0), (1.0, 2.0), (5.0, 5.0), (2.0, 5.0)]
    working.profiles = [make_profile(dropped={"calls": {"rows.log": each}}) for each in ends]
    result = working.run("--netpipe-against", "HEAD")
    line_with(result, "NOT_COMPARED against HEAD", "rows.log (5 calls to 6 calls, before 1 call")
    line_with(result, "work: counted: batches 2 to 17 in one thread")
    assert [place.folder is not None for place in working.places[-4:]] == [False, True] * 2


def test_a_pass_names_what_was_not_compared(working: Project) -> None:
    """A part that was left out, and a rise of CPU time, are in the summary."""
    commit_files(working.pytester.path, {})
    ends = [(1.0, 2.0), (1.5, 3.0)]
    working.profiles = [
        make_profile(dropped={"calls": {"rows.log": each}}, cpu_s_per_batch=1 / each[0])
        for each in ends
    ]
    result = working.run("--netpipe-against", "HEAD")
    line_with(result, "PASS against HEAD: calls", "1 s of CPU time", "not compared", "rows.log")


def test_ranges_do_not_regress_against_a_baseline(working: Project) -> None:
    """The outcome is INCONCLUSIVE, which --netpipe-inconclusive fail makes a failure."""
    working.profiles = [make_profile(dropped={"calls": {"rows.log": (5.0, 6.0)}})]
    result = working.compare()
    result.assert_outcomes(skipped=1)
    line_with(result, "INCONCLUSIVE", "rows.log (5 calls to 6 calls, before 0 calls to 0 calls)")
    working.compare("--netpipe-inconclusive", "fail").assert_outcomes(failed=1)


def test_a_version_without_the_test_has_nothing_to_compare(working: Project) -> None:
    """The outcome is NO_BASELINE, and a run that judged nothing fails."""
    commit_files(working.pytester.path, {})
    count = working.counted

    def count_here(command: list[str], request: Any, *place: object, **_: object) -> object:
        if place:
            raise NoSuchTestError("there is no such test")
        return count(command, request)

    working.uses(count_work=count_here)
    result = working.run("--netpipe-against", "HEAD")
    line_with(result, "NO_BASELINE against HEAD", "HEAD lacks or skips test_perf.py::test_work")
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_work_does_not_stand_in_for_times(working: Project) -> None:
    """A run fails if no time was judged, although its work was compared."""
    commit_files(working.pytester.path, {})
    other_data = replace(recorded(), fingerprint="other data")
    working.has(f"{dedent(LOAD_TIME)}{dedent(TEST)}")
    working.sessions = [recorded(), other_data, recorded(), recorded()]
    result = working.run("--netpipe-against", "HEAD")
    line_with(result, "4 kinds of work", "PASS")
    line_with(result, "load_cpu_ratio", "NOT_COMPARED")
    assert result.ret == pytest.ExitCode.TESTS_FAILED


OTHER = TEST.replace("test_work", "test_other")
LOST = {"test_perf.py::test_other"}


def record(project: Project, *words: str) -> None:
    """Record a baseline of work."""
    assert project.run("--netpipe-record", "next", *words).ret == pytest.ExitCode.OK


def test_a_removed_test_of_work_is_missed(working: Project) -> None:
    """A benchmark of work without a test is listed as lost until a baseline is recorded."""
    working.has(TEST + OTHER)
    record(working)
    working.has(TEST)
    result = working.compare("--netpipe-missing", "fail")
    assert lost(result) == LOST
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    record(working)
    result = working.compare("--netpipe-missing", "fail")
    assert not lost(result)
    assert result.ret == pytest.ExitCode.OK


def test_the_only_test_of_work_is_missed(working: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The baseline of the installed versions is read although nothing is counted."""
    monkeypatch.setattr("netpipe.plugin.run_plugin.installed_versions", lambda: VERSIONS)
    working.has(LOAD_TIME)
    assert lost(working.compare()) == {"test_perf.py::test_work"}


def test_a_test_of_work_in_an_older_baseline_is_missed(working: Project) -> None:
    """A newer baseline of some tests does not hide that another one was removed."""
    working.has(TEST + OTHER)
    record(working)
    record(working, "-k", "test_work")
    working.has(TEST)
    result = working.compare("--netpipe-missing", "fail")
    assert lost(result) == LOST
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_test_that_no_longer_counts_work_is_removed(working: Project) -> None:
    """A recording also removes a test that measures something else now."""
    working.has(TEST + OTHER)
    record(working)
    working.has(TEST + LOAD_TIME.replace("test_load_time", "test_other"))
    assert lost(working.compare("--netpipe-missing", "warn")) == LOST
    record(working)
    assert not lost(working.compare("--netpipe-missing", "fail"))


def test_a_damaged_baseline_of_work_is_not_passed_over(working: Project) -> None:
    """A recording needs the earlier baselines, and names the one that it cannot read."""
    (path,) = working.pytester.path.glob("baselines/work/*/0001_first.json")
    path.write_text("{")
    result = working.run("--netpipe-record", "next")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*no baseline of work was recorded: *0001_first.json*"])
