"""Turns, medians and processes of the benchmark."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from perf_tests.studies.rule_costs import trials
from perf_tests.studies.rule_costs.catalogue import Quantity, Trial
from perf_tests.studies.rule_costs.document import Form
from perf_tests.studies.rule_costs.examples import Example, Setting
from perf_tests.studies.rule_costs.measures import Observation
from perf_tests.studies.rule_costs.trials import TrialError, measure_in_turns


def nothing(_: Example, __: Setting) -> Observation:
    """Observe nothing."""
    raise AssertionError


def trial(*quantities: Quantity, varies: bool = True) -> Trial:
    """A trial of some quantities."""
    return Trial(nothing, Setting(batch=1), quantities, varies)


def seeing(wrong: Sequence[float], right: Sequence[float]) -> Callable[[Form], Observation]:
    """Observations of a quantity `bytes`, one after the other."""
    values = {"wrong": iter(wrong), "right": iter(right)}
    return lambda form: Observation({"bytes": next(values[form])})


def test_the_two_forms_take_turns() -> None:
    """The two forms take turns, so that other load affects both alike."""
    order: list[Form] = []

    def observe(form: Form) -> Observation:
        order.append(form)
        return Observation({"bytes": 1.0})

    list(measure_in_turns(trial(Quantity("bytes", "B")), observe, 3))
    assert order == ["wrong", "right", "right", "wrong", "wrong", "right"]


def test_a_figure_has_the_medians_and_every_round() -> None:
    """A figure has the medians and every round, in the report's unit."""
    quantity = Quantity("bytes", "MB", "at night", size=2.0)
    (figure,) = measure_in_turns(trial(quantity), seeing([2, 40, 6], [10, 20, 90]), 3)
    assert [figure.wrong, figure.right] == [3, 10]
    assert list(figure.rounds) == [(1, 5), (20, 10), (3, 45)]
    assert [figure.unit, figure.setting, figure.error] == ["MB", "at night", ""]


def test_what_the_wrong_example_raised_is_kept() -> None:
    """The exception of the wrong example is the recorded cost."""

    def observe(form: Form) -> Observation:
        error = "TypeError: no" if form == "wrong" else ""
        return Observation({"bytes": 0.0 if error else 5.0}, error)

    (figure,) = measure_in_turns(trial(Quantity("bytes", "B"), varies=False), observe)
    assert (figure.wrong, figure.right, figure.error) == (0, 5, "TypeError: no")


def test_a_right_example_that_fails_is_no_measurement() -> None:
    """A right example that fails raises an error instead of giving a figure."""
    failing = Observation({"bytes": 0.0}, "OSError: gone")
    with pytest.raises(TrialError, match=r"right .*OSError: gone"):
        list(measure_in_turns(trial(Quantity("bytes", "B")), lambda _: failing))


def test_an_example_is_observed_in_a_process_of_its_own(tmp_path: Path) -> None:
    """An example of the document runs, and its exception is the observation."""
    observed = trials._observe(("cannot-be-pickled", "wrong", "0"), tmp_path)
    assert observed.values == {"batches": 0}
    assert "_thread.lock" in observed.error
