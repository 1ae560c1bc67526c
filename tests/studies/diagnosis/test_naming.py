"""Trials of naming: the question about a case, and whether the answer is right."""

import json
from collections.abc import Callable

import pytest

from netpipe.results.start_up import StartUp
from perf_tests.studies.children import ChildError
from perf_tests.studies.diagnosis import naming
from perf_tests.studies.diagnosis.asking import Answer, Question
from perf_tests.studies.diagnosis.naming import make_question, run
from perf_tests.studies.faults.catalogue import find
from perf_tests.studies.faults.subject import VARIABLE
from tests.studies.diagnosis.answers_made import answer

SetAnswer = Callable[[Answer | Exception], None]


@pytest.fixture
def set_answer(monkeypatch: pytest.MonkeyPatch) -> SetAnswer:
    """Make diagnose give an answer, or fail."""

    def prepare(result: Answer | Exception) -> None:
        def diagnose(_: Question) -> Answer:
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(naming, "diagnose", diagnose)

    return prepare


def test_a_question_names_what_the_case_has() -> None:
    """A question has the loader, the drawn values, and the step and loop if any."""
    plain = find("slow-source")
    question = make_question(plain, plain.draw(1), 5.0)
    assert question.loader == "perf_tests.studies.faults.subject:loader"
    assert (question.step, question.loop) == ("", "")
    assert question.accelerator == plain.accelerator(plain.draw(1))
    described = json.loads(question.variables[VARIABLE])
    assert described == {"case": "slow-source", "values": plain.draw(1)}
    cores, lock = find("shared-cores"), find("gil-bound-threads")
    assert make_question(cores, cores.draw(1), 5.0).step.endswith(":step")
    assert make_question(lock, lock.draw(1), 5.0).loop.endswith(":loop")


def test_stage_and_resource_must_both_be_right(set_answer: SetAnswer) -> None:
    """Stage and resource are judged separately, and the trial by both."""
    case = find("slow-source")
    set_answer(answer(resource="read-latency"))
    assert run(case, 1, 5.0).is_right
    set_answer(answer(stage="Batch", resource="read-latency"))
    wrong = run(case, 1, 5.0)
    assert (wrong.is_stage, wrong.is_resource, wrong.is_right) == (False, True, False)
    set_answer(answer(resource="gil"))
    wrong = run(case, 1, 5.0)
    assert (wrong.is_stage, wrong.is_resource, wrong.is_right) == (True, False, False)


def test_a_slow_start_is_known_by_its_largest_part(set_answer: SetAnswer) -> None:
    """The largest part and a slow start are judged, not the bottleneck."""
    case = find("dataset-sent-to-a-worker")
    set_answer(answer(start_up=StartUp(1.0, 0.5, shipping_s=13.0)))
    right = run(case, 1, 5.0)
    assert (right.is_right, right.stage) == (True, "starting workers with the dataset")
    set_answer(answer(start_up=StartUp(13.0, 0.5, shipping_s=1.0)))
    assert not run(case, 1, 5.0).is_stage
    set_answer(answer(start_up=StartUp(1.0, 0.5, shipping_s=3.0)))
    assert not run(case, 1, 5.0).is_resource


def test_the_answer_is_kept(set_answer: SetAnswer) -> None:
    """The trial has the answer, the correct answer, and the drawn values."""
    set_answer(answer(stage=None, resource="device-transfer"))
    trial = run(find("wide-float32"), 3, 5.0)
    assert trial.is_right
    assert (trial.stage, trial.resource) == (None, "device-transfer")
    assert trial.planted == "no stage: device-transfer"
    assert trial.values == find("wide-float32").draw(3)
    assert trial.sentence.startswith("It is")


def test_a_failure_is_wrong(set_answer: SetAnswer) -> None:
    """A failed diagnosis is wrong even if no stage is the right answer."""
    set_answer(ChildError("ended with code 2"))
    trial = run(find("wide-float32"), 1, 5.0)
    assert (trial.is_stage, trial.resource, trial.sentence) == (False, "error", "ended with code 2")
