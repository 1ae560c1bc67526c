"""Timing in turns, and the request to the child process."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from netpipe.linting.experiments.variant_comparison import ElementBlock, Pace
from netpipe.measuring.loader_puller import LoaderFactory
from perf_tests.studies.diagnosis import turns
from perf_tests.studies.diagnosis.pipelines import draw_pipeline
from perf_tests.studies.diagnosis.subject import parse_pipeline
from perf_tests.studies.diagnosis.turns import Timed, time_loaders, time_pipelines


def test_rounds_run_there_and_back() -> None:
    """Every other round is reversed, and each loader keeps its own times."""
    asked: list[str] = []

    def measure(loader: LoaderFactory, pace: Pace) -> ElementBlock:
        assert pace.block_s > 0
        asked.extend(loader())
        return ElementBlock(0.001 * len(asked), 0.0, elements_per_batch=8)

    seconds = time_loaders([lambda: "a", lambda: "b", lambda: "c"], rounds=2, measure=measure)
    assert asked == ["a", "b", "c", "c", "b", "a"]
    assert seconds == [(0.008, 0.048), (0.016, 0.040), (0.024, 0.032)]


def test_a_child_times_the_pipelines_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child gets descriptions of the pipelines, and returns the times in their order."""
    pipelines = [draw_pipeline(1), draw_pipeline(2)]

    def printed(arguments: Sequence[str], _: Mapping[str, str], limit_s: float) -> Any:
        assert arguments[:2] == ["-m", "perf_tests.studies.diagnosis.turns"]
        assert [parse_pipeline(text) for text in arguments[2:]] == pipelines
        assert limit_s > 0
        return {"s_per_batch": [[0.01, 0.02], [0.03, 0.04]], "busy_elsewhere_fraction": 0.25}

    monkeypatch.setattr(turns, "run_for_json", printed)
    assert time_pipelines(pipelines) == Timed(((0.01, 0.02), (0.03, 0.04)), 0.25)
