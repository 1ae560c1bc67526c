"""Benchmarks without a comparable baseline."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from netpipe.results.measurement import Device, Measurement
from tests.plugin.project import Project, line_with
from tests.plugin.recorded import CPU, HOST, costly, recorded
from tests.repository import commit_files
from tests.workflows import tox_flags

TRAIN_TIME = """
    def test_train_time(netpipe_benchmark):
        netpipe_benchmark("train_s_per_step")
"""
A100 = Device("a100-sxm-80gb-x1", "NVIDIA A100-SXM4-80GB", "gpu")
ELSEWHERE = replace(HOST, memory_bytes=HOST.memory_bytes // 2)


@pytest.mark.parametrize(
    ("policy", "outcome", "code"),
    [("warn", "passed", pytest.ExitCode.OK), ("fail", "failed", pytest.ExitCode.TESTS_FAILED)],
)
def test_no_baseline_passes_or_fails(
    project: Project, policy: str, outcome: str, code: int
) -> None:
    """The summary names the device and the flag that records one; the test fails if asked."""
    result = project.compare("--netpipe-missing", policy)
    assert result.ret == code
    result.assert_outcomes(**{outcome: 1})
    line_with(result, "NO_BASELINE:", "cpu-testing-4")
    line_with(result, "--netpipe-record")


@pytest.mark.parametrize(
    ("policy", "fails"), [("warn", False), ("fail", True)], ids=["warn", "fail"]
)
@pytest.mark.parametrize(
    ("tox", "command"),
    [("a100", "tox -e a100 --"), ("", "pytest --netpipe-missing={policy} --benchmark-compare")],
    ids=["tox", "pytest"],
)
def test_a_missing_baseline_is_announced_before_the_first_measurement(
    project: Project,
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
    fails: bool,
    tox: str,
    command: str,
) -> None:
    """The line names the device, whether its benchmarks fail, and one command that records one."""
    monkeypatch.setenv("TOX_ENV_NAME", tox)
    lines = project.compare(f"--netpipe-missing={policy}").outlines
    record = f"{command.format(policy=policy)} --netpipe-record first"
    announced = f"there is no baseline for cpu-testing-4{', so its benchmarks will fail' * fails}"
    before = lines[: lines.index("  netpipe: measuring against auto, session 1 of 1")]
    assert f"  netpipe: {announced}. Record one: {record}" in before


def test_the_missing_baseline_is_that_of_the_accelerator_in_the_marker(project: Project) -> None:
    """The device that jax finds here is not named if no test is compared on it."""
    project.has(
        """
        import pytest

        @pytest.mark.netpipe(accelerator="emulated:7ms")
        def test_load_time(netpipe_benchmark):
            netpipe_benchmark("load_s_per_batch")
        """
    )
    result = project.compare()
    line_with(result, "netpipe: there is no baseline for emulated-7ms. Record one: ")
    result.stdout.no_fnmatch_line(f"*no baseline for {CPU.key}. Record one: *")


@pytest.mark.parametrize("flags", [("--netpipe-against=HEAD",), ("--netpipe-record=first",)])
def test_a_run_that_needs_no_baseline_does_not_ask_for_one(
    project: Project, flags: tuple[str, ...]
) -> None:
    """Neither a comparison with another version nor a recording announces a missing baseline."""
    commit_files(project.pytester.path, {})
    result = project.compare(*flags, "--netpipe-missing=fail")
    assert result.ret == pytest.ExitCode.OK
    assert "Record one" not in result.stdout.str()


def test_a_first_baseline_takes_one_command(project: Project) -> None:
    """`tox -e a100 -- --netpipe-record first` passes and says what to commit."""
    project.device = A100
    project.sessions = [recorded(device=A100)]
    result = project.run(*tox_flags("a100", ["--netpipe-record", "first"]))
    assert result.ret == pytest.ExitCode.OK
    assert project.baselines == ["a100-sxm-80gb-x1/0001_first.json"]
    line_with(result, "recorded", "/baselines/a100-sxm-80gb-x1/0001_first.json", "commit")


def test_a_local_baseline(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes one session and stays outside git; later runs on this machine compare with it."""
    monkeypatch.delenv("CI", raising=False)
    line_with(project.compare(), "for this machine only, with --netpipe-record local")
    project.commands.clear()
    result = project.run("--netpipe-record", "local")
    assert result.ret == pytest.ExitCode.OK
    assert len(project.commands) == 1
    assert project.baselines == []
    folder = project.pytester.path / ".netpipe"
    assert (folder / "baselines/cpu-testing-4/0001_local.json").is_file()
    assert (folder / ".gitignore").read_text() == "*\n"
    line_with(result, "recorded", "it serves on this machine")
    result = project.compare()
    line_with(result, "test_load_time", "load_s_per_batch", "PASS")
    line_with(result, "cpu-testing-4/0001_local.json", "is a baseline of this machine only")
    line_with(project.compare("--netpipe-missing", "fail"), "NO_BASELINE:", "cpu-testing-4")
    monkeypatch.setenv("CI", "true")
    line_with(project.compare(), "NO_BASELINE:", "cpu-testing-4")
    result = project.run("--netpipe-record", "local")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--netpipe-record must not be local in CI*"])


@pytest.mark.parametrize(("file", "code"), [(".netpipe", 4), ("baselines", 0)])
def test_a_local_baseline_needs_only_its_own_folder(
    project: Project, monkeypatch: pytest.MonkeyPatch, file: str, code: int
) -> None:
    """A run that could not write its recording measures nothing."""
    monkeypatch.delenv("CI", raising=False)
    (project.pytester.path / file).touch()
    assert project.run("--netpipe-record", "local").ret == code
    assert bool(project.commands) == (code == 0)


def test_a_committed_baseline_comes_first(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local baseline does not replace one that is in the repository."""
    monkeypatch.delenv("CI", raising=False)
    project.run("--netpipe-record", "local", "--netpipe-sessions", "3")
    assert len(project.commands) == 3
    project.record(costly())
    result = project.compare()
    line_with(result, "PASS")
    assert "0001_local.json" not in result.stdout.str()


@pytest.mark.parametrize(
    ("measured", "why_not"),
    [
        (replace(costly(), host=ELSEWHERE), "another host (8.0 GiB now, 16.0 GiB then)"),
        (replace(costly(), fingerprint="others"), "other data"),
    ],
    ids=["host", "data"],
)
def test_what_cannot_be_compared_is_no_pass(
    project: Project, measured: Measurement, why_not: str
) -> None:
    """The reason is below the table, in JSON and JUnit, and the test fails if asked."""
    project.record()
    project.sessions = [measured]
    result = project.compare("--netpipe-json=run.json", "--junitxml=run.xml")
    assert result.ret == pytest.ExitCode.OK
    compared = project.read_json("run.json")["comparisons"]
    cost = compared[0]
    assert {each["outcome"] for each in compared} == {"NOT_COMPARED"}
    assert (cost["worse_ratio"], cost["is_reported_only"]) == (None, False)
    reason = cost["reason"]
    for value in ("load_cpu_ratio", "cpu-testing-4/0001_first.json", why_not):
        assert value in reason
    assert f"NOT_COMPARED: {reason} (test_load_time)" in result.outlines
    assert "against the baseline" not in result.outlines  # A table would be empty.
    properties = ElementTree.parse(project.pytester.path / "run.xml").iter("property")
    values = [(entry.get("name"), entry.get("value")) for entry in properties]
    assert ("netpipe_not_compared", reason) in values
    result = project.compare("--netpipe-missing", "fail")
    result.assert_outcomes(failed=1)
    line_with(result, f"NOT_COMPARED: {reason}")


def test_a_metric_that_was_judged_keeps_its_outcome(project: Project) -> None:
    """A metric with another calibration is listed beside the wall time that decides."""
    project.record()
    project.sessions = [replace(costly(), calibration="reference-loader/1, 2 workers")]
    result = project.compare("--netpipe-missing", "fail")
    assert result.ret == pytest.ExitCode.OK
    line_with(result, "load_cpu_ratio", "NOT_COMPARED", "reference-loader/1, 0 workers")
    line_with(result, "load_s_per_batch", "PASS")


def test_a_baseline_without_memory_still_judges_the_times(project: Project) -> None:
    """A metric that an older baseline lacks is NOT_COMPARED; the others decide."""
    older = replace(recorded(), peak_pss_bytes=None, growth_bytes_per_batch=None)
    project.record(older)
    result = project.compare("--netpipe-missing", "fail", "--netpipe-json=run.json")
    assert result.ret == pytest.ExitCode.OK
    outcomes = {each["metric"]: each for each in project.read_json("run.json")["comparisons"]}
    for name in ("peak_pss_bytes", "growth_bytes_per_batch"):
        found = outcomes[name]
        assert (found["outcome"], found["baseline"]) == ("NOT_COMPARED", None)
        line_with(result, "NOT_COMPARED:", name, "the baseline does not have it")
    assert outcomes["first_batch_s"]["outcome"] == "PASS"
    project.sessions = [replace(costly(), peak_pss_bytes=800_000_000)]
    project.compare("--netpipe-missing", "fail").assert_outcomes(failed=1)


def test_what_is_reported_only_fails_nothing(project: Project) -> None:
    """A metric that is never judged on this device is shown, and fails no run by itself."""
    project.has(TRAIN_TIME)
    project.record()
    result = project.compare("--netpipe-missing", "fail", "--netpipe-json=run.json")
    assert result.ret == pytest.ExitCode.OK
    line_with(result, "NOT_COMPARED:", "accelerator_utilisation", "1.00 x", "reported only")
    (first, *_) = project.read_json("run.json")["comparisons"]
    assert (first["is_reported_only"], first["worse_ratio"]) == (True, 1.0)
