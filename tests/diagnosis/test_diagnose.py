"""The sessions of a diagnosis: their requests, and how their answers are combined."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from netpipe.diagnosis import diagnose
from netpipe.diagnosis.diagnose import compose_diagnosis, run_diagnosis, typical_s
from netpipe.diagnosis.diagnosis import Reads
from netpipe.errors import MisuseError
from netpipe.jobs.request import SessionRequest
from netpipe.jobs.targets import name_targets
from netpipe.linting.lint_request import LintRequest
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.results.measurement import Measurement
from tests.diagnosis.examples import BOTTLENECK, LINT, findings
from tests.measurements import make_measurement

REQUEST = MeasureRequest(accelerator="emulated:30ms", budget_s=60.0, mfu=0.5)
FOUND = findings().to_document()


class Sessions:
    """Replaces the sessions, and records their requests."""

    def __init__(self) -> None:
        self.asked: list[SessionRequest] = []

    def run_measurement(self, _: object, request: MeasureRequest, **__: object) -> Measurement:
        """Measure."""
        self.asked.append(request)
        return make_measurement()

    def run_session(self, _: object, request: SessionRequest, **__: object) -> Mapping[str, Any]:
        """Lint, or investigate the loader."""
        self.asked.append(request)
        return LINT if request.kind == "lint" else FOUND

    def of(self, kind: str) -> Any:
        """Return the request of the only session of a kind."""
        (asked,) = (request for request in self.asked if request.kind == kind)
        return asked


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    """Replace the real sessions."""
    stand_in = Sessions()
    for name in ("run_measurement", "run_session"):
        monkeypatch.setattr(diagnose, name, getattr(stand_in, name))
    return stand_in


def test_a_loader_alone_has_all_of_the_budget(sessions: Sessions) -> None:
    """Nothing is measured with a step, and no step is named to the session."""
    targets = name_targets(loader="a:loader")
    asked = replace(REQUEST, targets=targets, accelerator="auto")
    settings = LintRequest(silences={"rule": "why"}, intent="reproducible")
    found = run_diagnosis(asked, settings)
    assert found.measurement is None
    request = sessions.of("diagnose")
    assert request.budget_s == 140.0  # the longest that the session may take, for its own limit
    assert (request.targets, request.wanted_s) == (targets, 60.0)
    assert (request.step_s, request.load_s) == (None, None)
    assert typical_s(asked) == 60.0 + 2 * 12.0
    lint = sessions.of("lint")
    assert (lint.silences, lint.intent) == ({"rule": "why"}, "reproducible")


@pytest.mark.parametrize(
    "ignored",
    [{"trace": "out"}, {"targets": name_targets(loader="a:loader", loop="a:loop")}],
)
def test_what_needs_a_step_is_not_ignored(sessions: Sessions, ignored: dict[str, Any]) -> None:
    """Without a step, nothing is trained that could be traced."""
    asked = replace(REQUEST, targets=name_targets(loader="a:loader"), accelerator="auto")
    with pytest.raises(MisuseError, match="need a step"):
        run_diagnosis(replace(asked, **ignored), LintRequest())
    assert sessions.asked == []


@pytest.mark.parametrize(
    ("step", "accelerator"),
    [("a:step", "auto"), (None, "emulated:30ms"), ("a:step", "emulated:1s")],
)
def test_a_step_has_half_of_the_budget(
    sessions: Sessions, step: str | None, accelerator: str
) -> None:
    """The step is measured first, and the investigation knows its time."""
    targets = name_targets(loader="a:loader", step=step, loop="a:loop")
    asked = replace(REQUEST, targets=targets, accelerator=accelerator)
    found = run_diagnosis(asked, LintRequest())
    assert found.measurement == make_measurement()
    request = sessions.of("measure")
    assert request.budget_s == 30.0
    assert request.targets == targets
    request = sessions.of("diagnose")
    assert request.budget_s == 80.0
    load_s = make_measurement().load_s_per_batch
    sent = json.loads(request.to_json())
    assert sent["load_s"] == [load_s.median, load_s.low, load_s.high, load_s.n]
    assert sent["step_s"] == 0.03
    assert sent["wanted_s"] == 30.0
    assert typical_s(asked) == 60.0 + 3 * 12.0
    assert set(request.targets) == {"loader"}


def test_the_loaders_own_bottleneck_limits() -> None:
    """The resource of the loader limits, with and without a step."""
    for measurement in (None, make_measurement()):
        made = compose_diagnosis(FOUND, measurement, LINT)
        assert made.findings.bottleneck == BOTTLENECK
        assert made.lint == LINT
        assert made.findings.stages == findings().stages


def test_workers_that_the_loader_starts_itself_are_not_called_none() -> None:
    """A torch loader has no number of workers to vary, but the measurement counted them."""
    alone = findings(workers=0, enough_workers=0).to_document()
    made = compose_diagnosis(alone, make_measurement(loader_processes=3), LINT)
    assert (made.findings.workers, made.findings.enough_workers) == (3, None)
    assert "feed the step: unknown (has 3)" in made.sentence


@pytest.mark.parametrize("reads", [None, Reads(4, (), None, "")], ids=["computing", "waiting"])
def test_lint_does_not_warn_about_threads_if_reads_wait(reads: Reads | None) -> None:
    """The diagnosis has measured what lint does not know."""
    threads, order = {"rule": "threads-in-workers"}, {"rule": "shuffle-after-batch"}
    found = findings(reads=reads).to_document()
    lint = compose_diagnosis(found, None, {**LINT, "findings": [threads, order]}).lint
    if reads is None:
        assert (lint["findings"], lint["silenced"]) == ([threads, order], [])
    else:
        assert lint["findings"] == [order]
        assert lint["silenced"] == [{**threads, "reason": "reading was measured to wait"}]


def test_copies_to_the_device_limit() -> None:
    """No stage of the loader is to blame for a transfer-bound step."""
    measurement = make_measurement(train_s=0.0330, transfer_s=0.0316)
    found = compose_diagnosis(FOUND, measurement, LINT).findings.bottleneck
    assert (found.stage, found.resource) == (None, "device-transfer")
    assert found.fraction == pytest.approx(1 - 0.030 / 0.0316)
    assert found.why.startswith("transfer-bound")
