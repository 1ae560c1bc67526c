"""Requests: refused values, the time limits of sessions, and the fields sent to a child."""

import json
from contextlib import ExitStack
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any, get_type_hints

import pytest

from netpipe.errors import MisuseError
from netpipe.jobs.registry import JOBS, read_request
from netpipe.jobs.request import SessionRequest
from netpipe.jobs.targets import Factories, Target
from netpipe.linting.lint_request import LintRequest
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.resuming.checking import ResumeRequest
from netpipe.throughput.throughput_request import ThroughputRequest

REQUESTS = [
    ResumeRequest(result="result.json", parent=7, saved=[1]),
    ThroughputRequest(
        result="result.json",
        targets={"loader": Target("a.b", "c", ("d", {"e": [1]}), "network-disk")},
    ),
    MeasureRequest(result="r", accelerator="emulated:5ms", budget_s=1.5, not_from=("/one", "/two")),
    LintRequest(
        result="r", intent="reproducible", silences={"no-workers": "small data"}, proves=True
    ),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.kind)
def test_a_request_survives_its_way_to_the_child(
    monkeypatch: pytest.MonkeyPatch, request_: SessionRequest
) -> None:
    """The child reads what the parent wrote, except the time that only the parent enforces."""
    monkeypatch.setenv("NETPIPE_SESSION", replace(request_, time_left_s=3.0).to_json())
    assert read_request() == request_


def test_only_values_that_differ_from_their_defaults_are_sent() -> None:
    """Another version of netpipe may not know a new field."""
    assert json.loads(MeasureRequest(budget_s=7.0).to_json()) == {
        "kind": "measure",
        "budget_s": 7.0,
    }
    assert json.loads(LintRequest().to_json()) == {"kind": "lint"}


def test_unknown_values_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of another version of netpipe may hold fields that this one does not know."""
    monkeypatch.setenv("NETPIPE_SESSION", json.dumps({"kind": "measure", "result": "r", "new": 1}))
    assert read_request() == MeasureRequest(result="r")


def test_the_limit_of_a_session_follows_from_its_job() -> None:
    """Each of --prove and --try adds its budget to a lint; a measurement may compile for long."""
    lints = [
        LintRequest(budget_s=20.0, start_limit_s=300.0, proves=proves, tries=tries).limit_s
        for proves, tries in ((False, False), (True, False), (True, True))
    ]
    assert lints == [305.0, 345.0, 385.0]
    assert MeasureRequest(budget_s=20.0, start_limit_s=300.0).limit_s == 1295.0
    assert MeasureRequest(time_left_s=3.0).limit_s == 3.0


@pytest.mark.parametrize(
    ("request_type", "values", "words"),
    [
        (SessionRequest, {"accelerator": "h100"}, "accelerator .*auto.*found 'h100'"),
        (SessionRequest, {"budget_s": 0.0}, "budget .*above 0.* found 0"),
        (SessionRequest, {"budget_s": float("nan")}, "budget .*above 0.* found nan"),
        (SessionRequest, {"batch_limit_s": -1.0}, "batch limit .*above 0.* found -1"),
        (SessionRequest, {"start_limit_s": 0.0}, "start limit .*above 0.* found 0"),
        (MeasureRequest, {"start_limit_s": 0.0}, "start limit .*above 0.* found 0"),
        (MeasureRequest, {"flops_per_step": 0.0}, "FLOPs .*above 0.* found 0"),
        (MeasureRequest, {"flops_per_step": float("inf")}, "FLOPs .*finite; found inf"),
        (MeasureRequest, {"mfu": 0.0}, "MFU .*at most 1; found 0"),
        (MeasureRequest, {"mfu": 1.5}, "MFU .*at most 1; found 1.5"),
        (MeasureRequest, {"mfu": float("nan")}, "MFU .*at most 1; found nan"),
        (LintRequest, {"start_limit_s": 0.0}, "start limit .*above 0.* found 0"),
        (LintRequest, {"intent": "speed"}, "intent .*throughput.*found 'speed'"),
    ],
)
def test_a_value_outside_its_range_is_refused(
    request_type: type[SessionRequest], values: dict[str, Any], words: str
) -> None:
    """The request is checked before a process is started."""
    with pytest.raises(MisuseError, match=words):
        request_type(kind="measure", **values)


@pytest.mark.parametrize("kind", JOBS)
def test_every_job_exists(kind: str) -> None:
    """The request of a job has its kind; its function takes request, factories and exit stack."""
    request_type, function = map(resolve_name, JOBS[kind])
    assert request_type().kind == kind
    assert list(get_type_hints(function).values())[:3] == [request_type, Factories, ExitStack]
