"""Flags and ini keys: their values, alone and together, and the values that are refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from netpipe.plugin.options import Options
from tests.plugin.project import Project, line_with


class Setting(NamedTuple):
    """One option: how it is read, its default, and two other values as written and as read."""

    name: str
    read: Callable[[Options], Any]
    default: Any
    flag: tuple[str, Any]
    ini: tuple[str, Any]


SETTINGS = [
    Setting("device", lambda one: one.device, "", ("a100", "a100"), ("h100", "h100")),
    Setting("accelerator", lambda one: one.accelerators, ("auto",),
            ("emulated:5ms", ("emulated:5ms",)), ("auto, emulated:1s", ("auto", "emulated:1s"))),
    Setting("storage", lambda one: one.storage, "", ("network-disk", "network-disk"),
            ("object-store,latency=50ms", "object-store,latency=50ms")),
    Setting("against", lambda one: one.against, "", ("main", "main"), ("HEAD~1", "HEAD~1")),
    Setting("against_extras", lambda one: one.against_extras, "", ("dev", "dev"), ("a,b", "a,b")),
    Setting("budget", lambda one: one.request.budget_s, 20, ("40", 40), ("7.5", 7.5)),
    Setting("batch_limit", lambda one: one.request.batch_limit_s, 10, ("30", 30), ("2", 2)),
    Setting("start_limit", lambda one: one.request.start_limit_s, 600, ("900", 900), ("60", 60)),
    Setting("flops_per_step", lambda one: one.request.flops_per_step, None,
            ("1e12", 1e12), ("2e12", 2e12)),
    Setting("mfu", lambda one: one.request.mfu, 0.4, ("0.5", 0.5), ("0.3", 0.3)),
    Setting("intent", lambda one: one.lint_request.intent, "throughput",
            ("throughput", "throughput"), ("reproducible", "reproducible")),
    Setting("missing", lambda one: one.fail_when_missing, False, ("warn", False), ("fail", True)),
    Setting("inconclusive", lambda one: one.fail_when_inconclusive, False,
            ("warn", False), ("fail", True)),
    Setting("record", lambda one: one.record, "", ("first", "first"), ("second", "second")),
    Setting("sessions", lambda one: one.sessions, 10, ("3", 3), ("4", 4)),
    Setting("baselines", lambda one: one.baselines.name, "baselines", ("a", "a"), ("b", "b")),
    Setting("baselines_at", lambda one: one.baselines_at, "auto", ("here", "here"), ("x", "x")),
    Setting("trace", lambda one: Path(one.request.trace).name, "", ("a", "a"), ("b", "b")),
    Setting("json", lambda one: one.json, None, ("a", Path("a")), ("b", Path("b"))),
    Setting("report", lambda one: one.report, None, ("a", Path("a")), ("b", Path("b"))),
]  # fmt: skip


def options(pytester: pytest.Pytester, flag: str = "", ini: str = "") -> Options:
    """Read the options of a run with this flag and this line of the ini file."""
    pytester.makeini(f"[pytest]\n{ini}\n")
    return Options.from_config(pytester.parseconfig(*([flag] if flag else [])))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_flag_goes_before_its_ini_key(pytester: pytest.Pytester, setting: Setting) -> None:
    """An option has the value of its flag, else of its ini key, else its default."""
    flag = f"--netpipe-{setting.name.replace('_', '-')}={setting.flag[0]}"
    ini = f"netpipe_{setting.name} = {setting.ini[0]}"
    assert setting.read(options(pytester)) == setting.default
    assert setting.read(options(pytester, ini=ini)) == setting.ini[1]
    assert setting.read(options(pytester, flag=flag)) == setting.flag[1]
    assert setting.read(options(pytester, flag=flag, ini=ini)) == setting.flag[1]


def test_an_empty_flag_before_ini(pytester: pytest.Pytester) -> None:
    """A flag with an empty value overrides the ini key."""
    assert options(pytester, flag="--netpipe-json=", ini="netpipe_json = ini.json").json is None


def test_a_recording_does_not_ignore_a_ref(pytester: pytest.Pytester) -> None:
    """The ini key does not apply to a recording, but a flag that would do nothing is refused."""
    pytester.makeini("[pytest]\nnetpipe_against = main\n")
    recording = pytester.parseconfig("--netpipe-record=first")
    assert Options.from_config(recording).against == ""
    both = pytester.parseconfig("--netpipe-record=first", "--netpipe-against=HEAD")
    with pytest.raises(pytest.UsageError, match="against must be absent from a recording; found"):
        Options.from_config(both)


REFUSED = [
    ("accelerator", "gpu", "accelerator must be auto, emulated:<time>*'gpu'"),
    ("accelerator", "auto,emulated:0ms", "accelerator must be auto, emulated:<time>*0ms'"),
    ("budget", "long", "--netpipe-budget must be a number; found 'long'"),
    ("budget", "0", "the budget must be above 0 seconds, and finite; found 0"),
    ("budget", "nan", "the budget must be above 0 seconds, and finite; found nan"),
    ("batch-limit", "soon", "--netpipe-batch-limit must be a number; found 'soon'"),
    ("start-limit", "0", "the start limit must be above 0 seconds, and finite; found 0"),
    ("batch-limit", "-1", "the batch limit must be above 0 seconds, and finite; found -1"),
    ("flops-per-step", "many", "--netpipe-flops-per-step must be a number; found 'many'"),
    ("flops-per-step", "0", "the FLOPs of a step must be above 0, and finite; found 0"),
    ("mfu", "40%", "--netpipe-mfu must be a number; found '40%'"),
    ("mfu", "40", "the MFU must be above 0, and at most 1; found 40"),
    ("intent", "speed", "the intent must be throughput or reproducible; found 'speed'"),
    ("missing", "ignore", "--netpipe-missing must be warn or fail; found 'ignore'"),
    ("inconclusive", "rerun", "--netpipe-inconclusive must be warn or fail; found 'rerun'"),
    ("sessions", "0", "--netpipe-sessions must be a whole number above 0; found '0'"),
    ("sessions", "2.5", "--netpipe-sessions must be a whole number above 0; found '2.5'"),
    ("sessions", "many", "--netpipe-sessions must be a number; found 'many'"),
    ("record", "a" * 61, "--netpipe-record must consist of at most 60 letters, digits and _ . -"),
]


@pytest.mark.parametrize(("name", "value", "message"), REFUSED)
def test_a_bad_flag_is_a_usage_error(project: Project, name: str, value: str, message: str) -> None:
    """A wrong value ends the run at once, with one sentence."""
    result = project.run(f"--netpipe-{name}={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}*"])
    assert not project.requests


def test_a_bad_ini_key_is_a_usage_error(project: Project) -> None:
    """An ini key takes the same values as its flag."""
    project.pytester.makeini("[pytest]\nnetpipe_missing = ignore\n")
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR: --netpipe-missing", "warn", "fail", "'ignore'")


def test_a_session_gets_the_options(project: Project) -> None:
    """Budget, batch limit, accelerator, FLOPs and MFU are in its request."""
    project.run(
        "--netpipe-budget=4",
        "--netpipe-batch-limit=3",
        "--netpipe-accelerator=emulated:5ms",
        "--netpipe-flops-per-step=1e12",
        "--netpipe-mfu=0.3",
    )
    (request,) = project.requests
    assert (request.kind, request.accelerator) == ("measure", "emulated:5ms")
    assert (request.budget_s, request.batch_limit_s) == (4, 3)
    assert (request.flops_per_step, request.mfu) == (1e12, 0.3)


def test_an_empty_ref_is_refused(project: Project) -> None:
    """A shell passes an empty ref if the command that should print it fails."""
    result = project.run("--netpipe-against", "")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR: --netpipe-against must name a commit; found ''")
