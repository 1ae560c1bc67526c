"""--netpipe-against: duets of both versions decide."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import repeat
from xml.etree import ElementTree

import pytest

from netpipe.clock import Clock
from netpipe.errors import NoSuchTestError
from netpipe.git import git
from netpipe.results.measurement import CalibrationTurns, Measurement
from tests.fakes import FakeClock
from tests.plugin.project import CONFTEST, HERE, LOAD_TIME, Project, line_with
from tests.plugin.recorded import HOST, costly, recorded
from tests.repository import commit_files, worktrees

SLOWER = "load_cpu_ratio is 1.50 x (1.48 to 1.52), 3 duets, bound 1.03"
AGAINST = ("--netpipe-against", "HEAD")


@pytest.fixture
def versioned(project: Project) -> Project:
    """A project whose tests are committed."""
    commit_files(project.pytester.path, {})
    return project


def side_by_side(base: Measurement, now: Measurement, duets: int = 3) -> list[Measurement]:
    """Return the sessions of this version alone, then of the sides of each duet."""
    return [now, *([base, now] * duets)]


def is_base(project: Project) -> list[bool]:
    """Return for each session whether it ran the other version."""
    return [place.folder is not None for place in project.places]


def test_a_regression_fails_without_any_baseline(versioned: Project) -> None:
    """The duets decide; the first line has the ref, the metric, the ratio and its interval."""
    versioned.sessions = side_by_side(recorded(), costly())
    result = versioned.run(*AGAINST, "--junitxml", "junit.xml", "--netpipe-json", "run.json")
    result.assert_outcomes(failed=1)
    line_with(result, "REGRESSED against HEAD", SLOWER)
    line_with(result, "test_load_time", "load_cpu_ratio", "1.50 x", "REGRESSED")
    case = next(ElementTree.parse(versioned.pytester.path / "junit.xml").iter("testcase"))
    properties = {entry.get("name"): entry.get("value") for entry in case.iter("property")}
    assert properties["netpipe_outcome"] == "REGRESSED"
    assert properties["netpipe_against"] == "HEAD"
    document = versioned.read_json("run.json")
    assert [comparison["against"] for comparison in document["comparisons"]] == ["HEAD"] * 5
    assert len(document["against"]["duets"]) == 3


EXTRAS = ("--netpipe-against-extras", "dev")


@pytest.mark.parametrize(
    ("flag", "kept"),
    [
        (AGAINST, ()),
        (("--netpipe-against=HEAD", "--benchmark-compare"), ()),
        ((*AGAINST, *EXTRAS), EXTRAS),
    ],
)
def test_the_command_that_repeats_it_names_the_ref(
    versioned: Project, flag: tuple[str, ...], kept: tuple[str, ...]
) -> None:
    """Without the ref it would compare with a baseline; without the extras it might not start."""
    versioned.sessions = side_by_side(recorded(), costly())
    again = line_with(versioned.run(*flag), "again: ").partition(":")[2]
    assert again.split() == ["pytest", "test_perf.py::test_load_time", *AGAINST, *kept]


VIRTUAL = replace(recorded(), host=replace(HOST, machine=""))


@pytest.mark.parametrize(
    ("ratio", "machine", "is_noted"),
    [(2.1, "", True), (2.04, "", False), (2.05, "0123456789abcdef", False), (1.9, "", False)],
)
def test_a_change_that_the_machine_hides_has_a_command(
    project: Project, ratio: float, machine: str, *, is_noted: bool
) -> None:
    """On a virtual machine, a change from 3% to the bound of 10% passes, and duets decide it."""
    host = replace(HOST, machine=machine)
    project.record(replace(recorded(), host=host))
    project.sessions = [replace(recorded(load_cpu_ratio=ratio), host=host)]
    result = project.compare("-m", "not slow")
    result.assert_outcomes(passed=1)
    notes = [line for line in result.outlines if "side by side, the bound is" in line]
    assert len(notes) == is_noted
    for note in notes:
        assert note.startswith("load_cpu_ratio is 1.05 x that of cpu-testing-4/0001_first.json")
        assert note.endswith(
            "(bound 1.10); side by side, the bound is 1.03: pytest test_perf.py::test_load_time "
            "--netpipe-against 0123456789 -m 'not slow'"
        )


def test_the_largest_hidden_change_is_noted(project: Project) -> None:
    """A slower machine hides more of the load time than of its CPU time."""
    project.record(replace(VIRTUAL, turns=(CalibrationTurns(0.008, 0.004),)))
    slow = recorded(load_s=0.018, load_cpu_ratio=2.1)
    turns = (CalibrationTurns(0.012, 0.006),)
    project.sessions = [replace(slow, host=VIRTUAL.host, turns=turns)] * 3
    result = project.compare("-m", "not slow")
    result.assert_outcomes(passed=1)
    (note,) = (line for line in result.outlines if "side by side, the bound is" in line)
    assert note.startswith("load_s_per_batch is 1.80 x that of")
    assert "(bound 1.95; the reference loader takes 1.50 x the CPU time); side by side, " in note


def test_a_change_is_decided_by_the_command_itself(versioned: Project) -> None:
    """With a ref the duets have decided, and a baseline without a commit cannot."""
    versioned.record(VIRTUAL)
    hidden = replace(VIRTUAL, load_cpu_ratio=recorded(load_cpu_ratio=2.1).load_cpu_ratio)
    versioned.sessions = [hidden] * 5
    versioned.compare(*AGAINST).stdout.no_fnmatch_line("*side by side, the bound*")
    for nameless in ('"0123456789", "dirty": True', '"unversioned", "dirty": False'):
        versioned.pytester.makeconftest(CONFTEST.replace('"0123456789"', nameless))
        versioned.record(VIRTUAL)
        versioned.compare().stdout.no_fnmatch_line("*side by side, the bound*")


def test_both_versions_are_timed_at_once(versioned: Project) -> None:
    """After the measurement of this version, two duets of the ref and this version are enough."""
    versioned.run(*AGAINST).assert_outcomes(passed=1)
    assert is_base(versioned) == [False, True, False, True, False]
    assert [request.kind for request in versioned.requests] == ["measure", *["duet"] * 4]
    assert {request.duet_s for request in versioned.requests[1:]} == {10.0}


def test_the_baseline_is_held_beside_the_duets(versioned: Project) -> None:
    """A version equal to the ref fails if it is slower than the baseline."""
    versioned.record()
    versioned.sessions = side_by_side(costly(), costly())
    result = versioned.compare(*AGAINST)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*against HEAD*", "*1.00 x*PASS*", "*against the baseline*"])
    line_with(result, "test_load_time", "load_cpu_ratio", "1.50 x", "REGRESSED")
    assert len(versioned.requests) == 6


def test_each_quantity_has_its_own_duets(versioned: Project) -> None:
    """Two benchmarks of one quantity share their duets; a step on shared cores needs three."""
    step = 'def test_step(netpipe_benchmark): netpipe_benchmark("step_s")'
    versioned.has(f"{LOAD_TIME}\n    {step}\n    test_again = test_step")
    versioned.run(*AGAINST).assert_outcomes(passed=3)
    quantities = [request.quantity for request in versioned.requests[1:]]
    assert quantities == ["load_s_per_batch"] * 4 + ["step_s"] * 6


def test_each_version_must_run_its_own_code(versioned: Project) -> None:
    """A session's request names the checkout of its code, and the checkouts to refuse."""
    versioned.run(*AGAINST)
    here = str(versioned.pytester.path)
    _, base, now, *_ = versioned.requests
    assert (now.code_from, tuple(now.not_from)) == (here, (base.code_from,))
    assert (base.code_from, tuple(base.not_from)) == (str(versioned.places[1].folder), (here,))


def test_the_other_version_runs_its_own_test(versioned: Project) -> None:
    """The command has the node, the root and the ini file of the worktree, and this cache."""
    versioned.run(*AGAINST, "--netpipe-budget", "5")
    there, command = versioned.places[1].folder, versioned.commands[1]
    assert command[3:6] == [f"{there}/test_perf.py::test_load_time", f"--rootdir={there}", "-c"]
    assert command[6] == f"{there}/tox.ini"
    assert "--netpipe-budget" in command
    assert "--netpipe-against" not in command
    assert command[-1] == f"cache_dir={versioned.pytester.path}/.pytest_cache"


def test_both_versions_need_no_cache(versioned: Project) -> None:
    """Each version finds its own data if pytest's cache cannot be written."""
    versioned.run(*AGAINST, "-o", "cache_dir=/proc/no").assert_outcomes(passed=1)
    assert versioned.commands[1][-1] == "cache_dir=/proc/no"


def test_nothing_is_left(versioned: Project) -> None:
    """The worktree is gone at the end of a run that failed."""
    versioned.sessions = side_by_side(recorded(), costly())
    versioned.run(*AGAINST).assert_outcomes(failed=1)
    assert versioned.places[1].folder is not None
    assert not versioned.places[1].folder.exists()
    assert worktrees(versioned.pytester.path) == 1


def test_an_interrupted_run_leaves_nothing(base_raises: Callable[[BaseException], Project]) -> None:
    """The worktree is gone after Ctrl-C in a session of the other version."""
    project = base_raises(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        project.run(*AGAINST)
    assert worktrees(project.pytester.path) == 1


def test_a_ref_that_is_not_there_is_a_usage_error(versioned: Project) -> None:
    """The run ends with one sentence before anything is measured."""
    result = versioned.run("--netpipe-against", "nowhere")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = f"*--netpipe-against: REF *{versioned.pytester.path}; found 'nowhere'*"
    result.stderr.fnmatch_lines([said])
    assert not versioned.requests


def test_a_folder_outside_git_is_a_usage_error(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends with one sentence before anything is measured."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(project.pytester.path.parent))
    result = project.run(*AGAINST)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR", "--netpipe-against", "folder", "git")
    assert not project.requests


@pytest.fixture
def base_raises(versioned: Project) -> Callable[[BaseException], Project]:
    """Let every session of the other version fail."""

    def let(error: BaseException) -> Project:
        def fails(command, request, place=HERE, progress=None):  # type: ignore[no-untyped-def]
            if place.folder is not None:
                raise error
            return versioned.measured(command, request, place, progress)

        versioned.uses(measure=fails)
        return versioned

    return let


def test_a_test_that_the_ref_lacks_has_no_base(
    base_raises: Callable[[BaseException], Project],
) -> None:
    """The run says so in one sentence and passes, or fails if the flags say so."""
    project = base_raises(NoSuchTestError("no such test"))
    reason = "NO_BASELINE against HEAD: HEAD lacks or skips test_perf.py::test_load_time"
    result = project.run(*AGAINST)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([reason])
    result = project.run(*AGAINST, "--netpipe-missing", "fail")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([reason])


def test_the_first_tests_have_nothing_to_compare(project: Project) -> None:
    """The first tests pass with a note, and nothing of the ref is run."""
    work = "def test_work(netpipe_work): netpipe_work.compare()"
    project.has(f"{LOAD_TIME}\n    {work}")
    own = {path: path.read_text() for path in project.pytester.path.glob("*.py")}
    for path in own:
        path.unlink()
    commit_files(project.pytester.path, {"input.py": "", "README": "netpipe comes"})
    for path, text in own.items():
        path.write_text(text)
    result = project.run(*AGAINST)
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["nothing was compared: HEAD has no test with netpipe at all.*"])
    line_with(result, "test_load_time", "NO_BASELINE against HEAD")
    assert not any(is_base(project))
    result.stdout.no_fnmatch_line("*counting the work of HEAD*")
    assert project.run(*AGAINST, "--netpipe-missing", "fail").ret == pytest.ExitCode.TESTS_FAILED


def test_tests_under_another_name_are_not_the_first(
    base_raises: Callable[[BaseException], Project],
) -> None:
    """A renamed test is not judged, which fails the run."""
    result = base_raises(NoSuchTestError("no such test")).run(*AGAINST)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line_with(result, "no time was judged")


def test_tests_that_git_ignores_are_not_the_first(
    base_raises: Callable[[BaseException], Project],
) -> None:
    """Later changes could not be compared with them either."""
    project = base_raises(NoSuchTestError("no such test"))
    git(project.pytester.path, "rm", "--quiet", "--cached", "-r", ".")
    commit_files(project.pytester.path, {".gitignore": "*.py"})
    result = project.run(*AGAINST)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line_with(result, "no time was judged")


def test_without_a_base_the_baseline_decides(
    versioned: Project, base_raises: Callable[[BaseException], Project]
) -> None:
    """A test that the ref lacks is compared with the baseline, and alarms are confirmed."""
    versioned.record()
    project = base_raises(NoSuchTestError("no such test"))
    project.sessions = [costly()]
    project.compare(*AGAINST).assert_outcomes(failed=1)
    assert len(project.requests) == 2


def test_other_data_have_no_base(versioned: Project) -> None:
    """One duet is enough to find that the ref measures other data."""
    other = replace(recorded(), fingerprint="other")
    versioned.sessions = side_by_side(other, recorded())
    result = versioned.run(*AGAINST)
    line_with(result, "NOT_COMPARED against HEAD", "other data")
    assert len(versioned.requests) == 3


@pytest.fixture
def slow_sessions(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Iterable[float]], None]:
    """Set the seconds that each session takes on a clock that nothing else moves."""

    def let(seconds: Iterable[float]) -> None:
        clock, coming = FakeClock(), iter(seconds)
        monkeypatch.setattr(Clock, "__call__", lambda _: clock())

        def takes_long(command, request, place=HERE, progress=None):  # type: ignore[no-untyped-def]
            clock.sleep(next(coming))
            return project.measured(command, request, place, progress)

        project.uses(measure=takes_long)

    return let


def test_duets_end_with_their_time(
    versioned: Project, slow_sessions: Callable[[Iterable[float]], None]
) -> None:
    """No duet starts without time for it, and an open result is INCONCLUSIVE."""
    slow_sessions(repeat(700.0))
    result = versioned.run(*AGAINST, "--netpipe-start-limit", "60", "-rs")
    result.assert_outcomes(skipped=1)
    assert [request.limit_s for request in versioned.requests] == [815.0, 815.0, 815.0]
    line_with(result, "timed tests: 1", "1 session, which usually takes 32 s, without its duets")
    line_with(result, "duet 1 of 2: HEAD")
    line_with(result, "duet 2 of 2; at most 675 s are left: HEAD")
    line_with(result, "INCONCLUSIVE against HEAD", "1 duet", "1400", "2075 s")


def test_a_comparison_ends_with_its_time(
    project: Project, slow_sessions: Callable[[Iterable[float]], None]
) -> None:
    """An open comparison is INCONCLUSIVE if no time is left for another session."""
    project.record()
    project.sessions = [costly()]
    slow_sessions([800.0])
    result = project.compare("--netpipe-start-limit", "60", "-rs")
    result.assert_outcomes(skipped=1)
    assert [request.limit_s for request in project.requests] == [815.0]
    line_with(result, "INCONCLUSIVE", "800", "1265 s")
