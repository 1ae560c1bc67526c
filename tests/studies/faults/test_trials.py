"""Trials: the request of a session, and the reasons for a second one."""

import json
from collections.abc import Callable, Sequence

import pytest

from netpipe.errors import SessionError
from netpipe.jobs.parent import ProcessEnvironment
from netpipe.jobs.request import SessionRequest
from netpipe.jobs.targets import name_targets
from netpipe.results.measurement import Finding, Measurement
from perf_tests.studies.faults import trials
from perf_tests.studies.faults.catalogue import find
from perf_tests.studies.faults.subject import VARIABLE
from perf_tests.studies.faults.trials import run
from tests.measurements import EMULATED, make_measurement

SLOW = make_measurement(device=EMULATED, load_s=0.060, train_s=0.060)
OPEN = make_measurement(device=EMULATED, load_s=0.060, train_s=0.060, drained=False)

Measured = Callable[..., list[tuple[Sequence[str], SessionRequest, str]]]


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Make sessions return these measurements or raise these errors; return the requests."""

    def prepare(
        *results: Measurement | Exception,
    ) -> list[tuple[Sequence[str], SessionRequest, str]]:
        asked: list[tuple[Sequence[str], SessionRequest, str]] = []
        left = iter(results)

        def answer(
            command: Sequence[str], request: SessionRequest, environment: ProcessEnvironment
        ) -> Measurement:
            asked.append((command, request, environment.variables[VARIABLE]))
            result = next(left)
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(trials, "run_measurement", answer)
        return asked

    return prepare


def test_a_session_is_asked_for_the_case(measured: Measured) -> None:
    """The child gets the targets that the case has, its accelerator, and the values drawn."""
    asked = measured(SLOW)
    trial, measurement = run(find("slow-shard"), seed=3, budget_s=2.0)
    _, request, environment = asked[0]
    assert request.targets == name_targets(loader="perf_tests.studies.faults.subject:loader")
    assert request.accelerator.startswith("emulated:")
    assert request.budget_s == 2.0 * find("slow-shard").budget_ratio
    assert json.loads(environment) == {"case": "slow-shard", "values": trial.values}
    assert measurement is SLOW
    assert (trial.called, trial.first_message, trial.seed) == ("loader-bound", None, 3)


def test_a_case_with_a_step_and_one_with_a_loop_name_them(measured: Measured) -> None:
    """A real step runs on the CPU, and the case's own loop is requested."""
    asked = measured(SLOW, SLOW)
    run(find("slow-loader-on-a-cpu"), seed=1, budget_s=1.0)
    run(find("sync-float"), seed=1, budget_s=1.0)
    assert str(asked[0][1].targets["step"]) == "perf_tests.studies.faults.subject:step"
    assert asked[0][1].accelerator == "auto"
    assert str(asked[1][1].targets["loop"]) == "perf_tests.studies.faults.subject:loop"


def test_a_blamed_control_is_measured_once_more(measured: Measured) -> None:
    """A blamed control gets a second session; a named fault does not."""
    fine = make_measurement(device=EMULATED)
    measured(SLOW, fine, SLOW, SLOW, SLOW)
    calmed, _ = run(find("fine-thread"), seed=1, budget_s=2.0)
    assert (calmed.called, str(calmed.first_message)[:12]) == ("healthy", "loader-bound")
    blamed, _ = run(find("fine-thread"), seed=1, budget_s=2.0)
    assert (blamed.called, blamed.first_message) == ("loader-bound", blamed.message)
    named, _ = run(find("slow-shard"), seed=1, budget_s=2.0)
    assert named.first_message is None


def test_an_inconclusive_session_is_measured_once_more(measured: Measured) -> None:
    """The second session decides, and the message of the first is kept."""
    asked = measured(OPEN, SLOW, OPEN, OPEN)
    decided, measurement = run(find("slow-source"), seed=1, budget_s=1.0)
    assert decided.called == "loader-bound"
    assert str(decided.first_message).startswith("inconclusive: ")
    assert measurement is SLOW
    still_open, _ = run(find("slow-source"), seed=1, budget_s=1.0)
    assert (still_open.called, still_open.message) == ("inconclusive", still_open.first_message)
    assert len(asked) == 4


def test_a_session_that_fails_is_a_result_too(measured: Measured) -> None:
    """A crash is recorded as an error, and is not measured again."""
    asked = measured(SessionError("ended with code 3"))
    trial, measurement = run(find("slow-source"), seed=1, budget_s=1.0)
    assert (trial.called, trial.message) == ("error", "ended with code 3")
    assert measurement is None
    assert len(asked) == 1


def test_findings_come_along(measured: Measured) -> None:
    """A trial has the findings of the protocol and the verdict's remarks."""
    found = make_measurement(
        findings=(Finding("donation-missing", "1 byte"),), busy_elsewhere_fraction=0.5
    )
    measured(found)
    trial, _ = run(find("donation-missing"), seed=1, budget_s=1.0)
    assert list(trial.findings) == ["donation-missing", "busy-host"]
