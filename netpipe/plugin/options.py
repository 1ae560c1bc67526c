"""The flags and ini keys of the plugin, read in one place."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from netpipe.device.emulated_names import parse_accelerators
from netpipe.errors import NetpipeError
from netpipe.jobs.request import START_LIMIT_S
from netpipe.linting.lint_request import LintRequest
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.paths import find_path_problem
from netpipe.printable import make_loggable

BASELINE: Final = "baseline"
"""The ref that names the commit at which the baseline in use was recorded."""

# name: (default, metavar, help)
_FLAGS: Final = {
    "device": ("", "KEY", "this run must be on that device; a family (a100) matches its variants"),
    "against": ("", "REF",
        "a git ref to time side by side with this version; baseline: the commit of the baseline"),
    "against_extras": ("", "EXTRAS",
        "extras to install with REF where it declares other dependencies"),
    "accelerator": ("auto", "A", "auto, emulated:36ms, emulated:8xh100, or a list of them"),
    "storage": ("", "NAME",
        "a stand-in that loaders read from, as object-store or object-store,latency=50ms"),
    "flops_per_step": ("", "FLOPS", "FLOPs of a step, for its MFU and for an emulated:h100"),
    "mfu": ("0.4", "FRACTION", "the part of its peak that an emulated accelerator reaches"),
    "budget": ("20", "SECONDS", "seconds for the rounds of one measurement"),
    "batch_limit": ("10", "SECONDS",
        "seconds without a batch after which a loader counts as hanging"),
    "start_limit": (f"{START_LIMIT_S:g}", "SECONDS", "seconds until the first batch must be there"),
    "intent": ("", "INTENT",
        "throughput or reproducible (else that of [tool.netpipe.lint] in pyproject.toml)"),
    "missing": ("warn", "POLICY", "warn or fail where there is no comparable baseline"),
    "inconclusive": ("warn", "POLICY",
        "warn or fail where a noisy machine leaves the outcome open"),
    "record": ("", "NAME", "write this run as a baseline, if every verdict was valid"),
    "sessions": ("10", "N", "fresh processes that a recorded baseline consists of"),
    "baselines": ("baselines", "DIR", "where baselines lie, from the root folder"),
    "baselines_at": ("auto", "REF",
        "the commit that baselines are read from; auto, or here for the working tree"),
    "trace": ("", "DIR", "keep a profiler's trace of some steps of each measurement in DIR"),
    "json": ("", "FILE", "write every measurement, verdict and comparison to FILE"),
    "report": ("", "FILE.html", "write one HTML page of them to FILE.html"),
}  # fmt: skip

# name: (what the whole value matches, the constraint in words)
_TEXTS: Final = {
    "missing": ("warn|fail", "be warn or fail"),
    "inconclusive": ("warn|fail", "be warn or fail"),
    "record": (r"[\w.-]{0,60}", "consist of at most 60 letters, digits and _ . -"),
}


@dataclass(frozen=True)
class Options:
    """The options of this run, which `_FLAGS` describes.

    Attributes:
        against: The git ref to time side by side with this version, or `BASELINE`; "" for none, as
            in a run that is recorded.
    """

    device: str
    against: str
    against_extras: str
    accelerators: tuple[str, ...]
    request: MeasureRequest
    lint_request: LintRequest
    fail_when_missing: bool
    fail_when_inconclusive: bool
    storage: str
    record: str
    sessions: int
    baselines: Path
    baselines_at: str
    json: Path | None
    report: Path | None

    @classmethod
    def from_config(cls, config: pytest.Config) -> "Options":
        """Read flags, then ini keys, then defaults; raise a UsageError for a wrong value."""
        values = _read_values(config)
        with as_usage_error():
            request, lint_request = _make_requests(values, config.rootpath)
            accelerators = parse_accelerators(values["accelerator"])
            if values["storage"]:
                from netpipe.storage.profiles import parse_storage  # It imports the stand-in too.

                parse_storage(values["storage"])
        if values["storage"] and values["record"]:
            raise _usage("storage", "be left out of a recording: its times are derived",
                         values["storage"])  # fmt: skip
        sessions = _number(values, "sessions")
        if sessions < 1 or not sessions.is_integer():
            raise _usage("sessions", "be a whole number above 0", values["sessions"])
        return cls(
            device=values["device"],
            against="" if values["record"] else values["against"],
            against_extras=values["against_extras"],
            accelerators=accelerators,
            request=request,
            lint_request=lint_request,
            fail_when_missing=values["missing"] == "fail",
            fail_when_inconclusive=values["inconclusive"] == "fail",
            storage=values["storage"],
            record=values["record"],
            sessions=int(sessions),
            baselines=config.rootpath / values["baselines"],
            baselines_at=values["baselines_at"],
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
    """Return whether a flag or an ini key asks for netpipe, or for a comparison with a baseline."""
    return bool(getattr(config.option, "benchmark_compare", None)) or any(
        config.getoption(f"netpipe_{name}") is not None
        or config.getini(f"netpipe_{name}") != default
        for name, (default, _, _) in _FLAGS.items()
    )


@contextmanager
def as_usage_error() -> Iterator[None]:
    """Turn an error whose message is for the user into a UsageError."""
    try:
        yield
    except NetpipeError as error:
        raise pytest.UsageError(make_loggable(str(error))) from error


def _read_values(config: pytest.Config) -> dict[str, str]:
    values = {}
    for name in _FLAGS:
        flag = config.getoption(f"netpipe_{name}")
        values[name] = str(config.getini(f"netpipe_{name}") if flag is None else flag)
    for name, (allowed, constraint) in _TEXTS.items():
        if not re.fullmatch(allowed, values[name]):
            raise _usage(name, constraint, values[name])
    for name in ("baselines", "trace", "json", "report"):
        problem = find_path_problem(values[name])
        if problem and (values[name] or name == "baselines"):
            raise _usage(name, problem, values[name])
    return values


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
