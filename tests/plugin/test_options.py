"""Flags and ini keys: what each comes to, alone and together, and which values are refused."""

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
    Setting(
        "accelerator",
        lambda one: one.accelerators,
        ("auto",),
        ("emulated:5ms", ("emulated:5ms",)),
        ("auto, emulated:1s", ("auto", "emulated:1s")),
    ),
    Setting(
        "storage",
        lambda one: one.storage,
        "",
        ("network-disk", "network-disk"),
        ("object-store,latency=50ms", "object-store,latency=50ms"),
    ),
    Setting("against", lambda one: one.against, "", ("main", "main"), ("HEAD~1", "HEAD~1")),
    Setting("against_extras", lambda one: one.against_extras, "", ("dev", "dev"), ("a,b", "a,b")),
    Setting("budget", lambda one: one.request.budget_s, 20, ("40", 40), ("7.5", 7.5)),
    Setting("batch_limit", lambda one: one.request.batch_limit_s, 10, ("30", 30), ("2", 2)),
    Setting("start_limit", lambda one: one.request.start_limit_s, 600, ("900", 900), ("60", 60)),
    Setting(
        "flops_per_step",
        lambda one: one.request.flops_per_step,
        None,
        ("1e12", 1e12),
        ("2e12", 2e12),
    ),
    Setting("mfu", lambda one: one.request.mfu, 0.4, ("0.5", 0.5), ("0.3", 0.3)),
    Setting(
        "intent",
        lambda one: one.lint_request.intent,
        "throughput",
        ("throughput", "throughput"),
        ("reproducible", "reproducible"),
    ),
    Setting("missing", lambda one: one.fail_when_missing, False, ("warn", False), ("fail", True)),
    Setting(
        "inconclusive",
        lambda one: one.fail_when_inconclusive,
        False,
        ("warn", False),
        ("fail", True),
    ),
    Setting("record", lambda one: one.record, "", ("first", "first"), ("second", "second")),
    Setting("sessions", lambda one: one.sessions, 10, ("3", 3), ("4", 4)),
    Setting(
        "baselines", lambda one: one.baselines.name, "baselines", ("flag", "flag"), ("ini", "ini")
    ),
    Setting(
        "baselines_at",
        lambda one: one.baselines_at,
        "auto",
        ("here", "here"),
        ("origin/main", "origin/main"),
    ),
    Setting(
        "trace",
        lambda one: one.request.trace and Path(one.request.trace).name,
        "",
        ("flag", "flag"),
        ("ini", "ini"),
    ),
    Setting(
        "json",
        lambda one: one.json,
        None,
        ("flag.json", Path("flag.json")),
        ("ini.json", Path("ini.json")),
    ),
    Setting(
        "report",
        lambda one: one.report,
        None,
        ("flag.html", Path("flag.html")),
        ("ini.html", Path("ini.html")),
    ),
]


@pytest.fixture(params=SETTINGS, ids=lambda setting: setting.name)
def setting(request: pytest.FixtureRequest) -> Setting:
    """Each option in turn."""
    chosen: Setting = request.param
    return chosen


def options(pytester: pytest.Pytester, flag: str = "", ini: str = "") -> Options:
    """Read the options of a run with this flag and this line of the ini file."""
    pytester.makeini(f"[pytest]\n{ini}\n")
    return Options.from_config(pytester.parseconfig(*([flag] if flag else [])))


def as_flag(setting: Setting) -> str:
    """Write the setting as a flag."""
    return f"--netpipe-{setting.name.replace('_', '-')}={setting.flag[0]}"


def as_ini(setting: Setting) -> str:
    """Write the setting as a line of an ini file."""
    return f"netpipe_{setting.name} = {setting.ini[0]}"


def test_default(pytester: pytest.Pytester, setting: Setting) -> None:
    """Without flag and ini key, an option has its default."""
    assert setting.read(options(pytester)) == setting.default


def test_flag_alone(pytester: pytest.Pytester, setting: Setting) -> None:
    """A flag sets its option."""
    assert setting.read(options(pytester, flag=as_flag(setting))) == setting.flag[1]


def test_ini_alone(pytester: pytest.Pytester, setting: Setting) -> None:
    """An ini key sets its option."""
    assert setting.read(options(pytester, ini=as_ini(setting))) == setting.ini[1]


def test_flag_before_ini(pytester: pytest.Pytester, setting: Setting) -> None:
    """Where both are given, the flag counts, even where it gives the default."""
    both = options(pytester, flag=as_flag(setting), ini=as_ini(setting))
    assert setting.read(both) == setting.flag[1]


def test_an_empty_flag_before_ini(pytester: pytest.Pytester) -> None:
    """A flag with an empty value takes back what the ini file asks for."""
    assert options(pytester, flag="--netpipe-json=", ini="netpipe_json = ini.json").json is None


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
    """A value that is none of those allowed ends the run at once, in one sentence."""
    result = project.run(f"--netpipe-{name}={value}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}*"])
    assert not project.requests


def test_a_bad_ini_key_is_a_usage_error(project: Project) -> None:
    """An ini key is held to the same values as its flag."""
    project.pytester.makeini("[pytest]\nnetpipe_missing = ignore\n")
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR: --netpipe-missing", "warn", "fail", "'ignore'")


def test_a_session_is_asked_for_what_the_options_say(project: Project) -> None:
    """Budget, batch limit, accelerator, FLOPs and MFU travel to the session."""
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
