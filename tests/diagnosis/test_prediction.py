"""Predictions and their intervals."""

from functools import partial

import pytest

from netpipe.diagnosis.cost_model import LoaderModel, StageCost, with_stage_times, with_workers
from netpipe.diagnosis.what_if import MeasuredLoader

MODEL = LoaderModel(((StageCost(0.040, 0.0), True),), workers=1, threads=0, cores=8)
TWO = partial(with_workers, workers=2)


def test_the_model_gives_a_ratio_to_what_was_measured() -> None:
    """What the model has wrong about the loader as it is does not get into a prediction."""
    foreseen = MeasuredLoader(MODEL, (0.050, 0.060, 0.070)).predict(TWO)
    assert foreseen.median == pytest.approx(0.060 / 2)
    assert foreseen.n == 3


def test_spread_rounds_make_a_wide_interval() -> None:
    """The interval holds the median, and is the wider the more the rounds differ."""
    sure, unsure = (
        MeasuredLoader(MODEL, rounds).predict(TWO)
        for rounds in ((0.060,) * 5, (0.040, 0.060, 0.090))
    )
    assert unsure.low < sure.low < sure.median < sure.high < unsure.high


def test_the_models_own_error_is_in_it() -> None:
    """Rounds that agree to the last digit are no reason to be sure of a model."""
    foreseen = MeasuredLoader(MODEL, (0.060,) * 9).predict(TWO)
    assert foreseen.low < 0.95 * foreseen.median
    assert foreseen.high > 1.05 * foreseen.median


def test_what_does_not_change_is_known() -> None:
    """A change that changes nothing is predicted as it was measured."""
    foreseen = MeasuredLoader(MODEL, (0.060,) * 9).predict(lambda parts: parts)
    assert (foreseen.low, foreseen.median, foreseen.high) == (0.060, 0.060, 0.060)


def test_a_prediction_is_the_same_each_time() -> None:
    """The same rounds give the same interval."""
    known = MeasuredLoader(MODEL, (0.050, 0.060, 0.070))
    absent = partial(with_stage_times, place=0, factor=0.5)
    assert known.predict(absent) == known.predict(absent)
