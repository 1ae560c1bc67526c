"""The flags and ini keys of the plugin, read in one place."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from netpipe.device.emulated_names import parse_accelerators
from netpipe.errors import NetpipeError
from netpipe.files.paths import find_path_problem
from netpipe.jobs.request import START_LIMIT_S
from netpipe.linting.lint_request import LintRequest
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.printable import make_loggable

BASELINE: Final = "baseline"
"""The ref that stands for the commit of the latest baseline."""

LOCAL: Final = "local"
"""The name of a recording for this machine only, which is kept outside git."""

# name: (default, metavar, help)
_FLAGS: Final = {
    "device": ("", "KEY", "this run must be on that device; a family (a100) matches its variants"),
    "against": ("", "REF",
        "a git ref to time side by side with this version; baseline: the commit of the baseline"),
    "against_extras": ("", "EXTRAS",
        "extras to install with REF if it declares other dependencies"),
    "accelerator": ("auto", "A", "auto, emulated:36ms, emulated:8xh100, or a list of them"),
    "storage": ("", "NAME",
        "a stand-in that loaders read from, such as object-store or object-store,latency=50ms"),
    "flops_per_step": ("", "FLOPS", "FLOPs of a step, for its MFU and for emulated:h100"),
    "mfu": ("0.4", "FRACTION", "fraction of its peak that an emulated accelerator reaches"),
    "budget": ("20", "SECONDS", "seconds for the rounds of one measurement"),
    "batch_limit": ("10", "SECONDS",
        "seconds without a batch after which a loader counts as hanging"),
    "start_limit": (f"{START_LIMIT_S:g}", "SECONDS", "seconds allowed until the first batch"),
    "intent": ("", "INTENT",
        "throughput or reproducible (else that of [tool.netpipe.lint] in pyproject.toml)"),
    "missing": ("warn", "POLICY", "warn or fail if there is no comparable baseline"),
    "inconclusive": ("warn", "POLICY",
        "warn or fail if a noisy machine leaves the outcome open"),
    "record": ("", "NAME",
        "write a baseline of the tests that passed with valid verdicts; local: for this machine"),
    "sessions": ("10", "N", "fresh processes to record for a baseline"),
    "baselines": ("baselines", "DIR", "folder of the baselines, from the root folder"),
    "baselines_at": ("auto", "REF",
        "the commit that baselines are read from; auto, or here for the working tree"),
    "trace": ("", "DIR", "keep a profiler's trace of some steps of each measurement in DIR"),
    "json": ("", "FILE", "write every measurement, verdict and comparison to FILE"),
    "report": ("", "FILE.html", "write one HTML page of them to FILE.html"),
}  # fmt: skip

_LOCAL_FOLDER: Final = ".netpipe/baselines"
_FAILS: Final = {"warn": False, "fail": True}


@dataclass(frozen=True)
class Options:
    """The options of a run, described in `_FLAGS`; `against` is empty in a recording.

    Attributes:
        local_baselines: The folder for `LOCAL`; None in CI, which compares with no such baseline.
    """

    device: str = ""
    against: str = ""
    against_extras: str = ""
    accelerators: tuple[str, ...] = ("auto",)
    request: MeasureRequest = field(default_factory=MeasureRequest)
    lint_request: LintRequest = field(default_factory=LintRequest)
    fail_when_missing: bool = False
    fail_when_inconclusive: bool = False
    storage: str = ""
    record: str = ""
    sessions: int = 10
    baselines: Path = Path("baselines")
    baselines_at: str = "auto"
    local_baselines: Path | None = None
    json: Path | None = None
    report: Path | None = None

    @property
    def recordings(self) -> Path:
        """The folder that a recording is written to."""
        return (self.record == LOCAL and self.local_baselines) or self.baselines

    @classmethod
    def from_config(cls, config: pytest.Config) -> "Options":
        """Read flags, then ini keys, then defaults; raise a UsageError for an invalid value."""
        values = _read_values(config)
        if values["storage"] and values["record"]:
            constraint = "be absent from a recording: its times are derived"
            raise _usage("storage", constraint, values["storage"])
        sessions = _number(values, "sessions")
        if sessions < 1 or not sessions.is_integer():
            raise _usage("sessions", "be a whole number above 0", values["sessions"])
        with as_usage_error():
            request, lint_request = _make_requests(values, config.rootpath)
            accelerators = parse_accelerators(values["accelerator"])
            if values["storage"]:
                from netpipe.storage.profiles import parse_storage  # It imports the stand-in too.

                parse_storage(values["storage"])
        plain = ("device", "against", "against_extras", "storage", "record", "baselines_at")
        return cls(
            **{name: values[name] for name in plain},
            accelerators=accelerators,
            request=request,
            lint_request=lint_request,
            fail_when_missing=_FAILS[values["missing"]],
            fail_when_inconclusive=_FAILS[values["inconclusive"]],
            sessions=int(sessions),
            baselines=config.rootpath / values["baselines"],
            local_baselines=None if is_in_ci() else config.rootpath / _LOCAL_FOLDER,
            json=Path(values["json"]) if values["json"] else None,
            report=Path(values["report"]) if values["report"] else None,
        )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare every flag with its ini key."""
    group = parser.getgroup("netpipe", "input pipeline performance")
    for name, (default, metavar, text) in _FLAGS.items():
        group.addoption(
            f"--netpipe-{name.replace('_', '-')}",
            dest=f"netpipe_{name}",
            default=None,
            metavar=metavar,
            help=f"{text} (default: {default or 'none'})",
        )
        parser.addini(f"netpipe_{name}", f"{text}; the flag overrides it", default=default)


def is_any_given(config: pytest.Config) -> bool:
    """Return whether an option of netpipe or a comparison with a baseline was requested."""
    return bool(getattr(config.option, "benchmark_compare", None)) or any(
        config.getoption(f"netpipe_{name}") is not None
        or config.getini(f"netpipe_{name}") != default
        for name, (default, _, _) in _FLAGS.items()
    )


@contextmanager
def as_usage_error() -> Iterator[None]:
    """Turn a NetpipeError, whose message is for the user, into a UsageError."""
    try:
        yield
    except NetpipeError as error:
        raise pytest.UsageError(make_loggable(str(error))) from error


def _read_values(config: pytest.Config) -> dict[str, str]:
    values = {}
    for name in _FLAGS:
        flag = config.getoption(f"netpipe_{name}")
        values[name] = str(config.getini(f"netpipe_{name}") if flag is None else flag)
    if config.getoption("netpipe_against") == "":  # for example, `$(git merge-base ...)` failed
        raise _usage("against", "name a commit", "")
    for name in ("missing", "inconclusive"):
        if values[name] not in _FAILS:
            raise _usage(name, "be warn or fail", values[name])
    for name in ("baselines", "trace", "json", "report"):
        problem = find_path_problem(values[name])
        if problem and (values[name] or name == "baselines"):
            raise _usage(name, problem, values[name])
    if not re.fullmatch(r"[\w.-]{0,60}", values["record"]):
        constraint = "consist of at most 60 letters, digits and _ . -"
        raise _usage("record", constraint, values["record"])
    if values["record"]:
        if config.getoption("netpipe_against"):
            raise _usage("against", "be absent from a recording", values["against"])
        values["against"] = ""
    if values["record"] == LOCAL:
        if is_in_ci():
            raise _usage("record", "not be local in CI, which never reads it", LOCAL)
        if config.getoption("netpipe_sessions") is None:
            values["sessions"] = "1"
    return values


def is_in_ci() -> bool:
    """Return whether the run is part of continuous integration."""
    return bool(os.environ.get("CI"))


def _make_requests(values: dict[str, str], root: Path) -> tuple[MeasureRequest, LintRequest]:
    from netpipe.linting.settings import read_lint_settings  # Slow: it imports every rule.

    lint = read_lint_settings(root)
    request = MeasureRequest(
        budget_s=_number(values, "budget"),
        batch_limit_s=_number(values, "batch_limit"),
        start_limit_s=_number(values, "start_limit"),
        flops_per_step=_number(values, "flops_per_step") if values["flops_per_step"] else None,
        mfu=_number(values, "mfu"),
        trace=str(Path(values["trace"]).absolute()) if values["trace"] else "",
    )
    intent = values["intent"] or lint.intent
    return request, LintRequest(
        start_limit_s=request.start_limit_s, intent=intent, silences=lint.silences
    )


def _number(values: dict[str, str], name: str) -> float:
    try:
        return float(values[name])
    except ValueError as error:
        raise _usage(name, "be a number", values[name]) from error


def _usage(name: str, constraint: str, found: str) -> pytest.UsageError:
    flag = f"--netpipe-{name.replace('_', '-')}"
    return pytest.UsageError(f"{flag} must {constraint}; found {found!r}")
