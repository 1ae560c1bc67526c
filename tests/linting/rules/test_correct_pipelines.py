"""Correct pipelines have no findings."""

from collections.abc import Callable
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import grain
import jax
import numpy as np
import pytest

from netpipe.grain_access.source_lines import record_source_lines
from netpipe.grain_access.worker_start import let_grain_start_workers
from netpipe.linting.linter import LintReport, lint
from tests.linting.rules.pipeline_parts import CORRECT, CorrectPipeline

# Each module adds its pipelines to CORRECT.
for file in sorted(Path(__file__).parent.glob("correct_*.py")):
    import_module(f"tests.linting.rules.{file.stem}")

JUDGED = [
    pytest.param(pipeline, intent, id=f"{pipeline.name}-{intent}")
    for pipeline in CORRECT
    for intent in pipeline.intents
]
EACH = [pytest.param(pipeline, id=pipeline.name) for pipeline in CORRECT]
DEPENDS_ON_WORKERS = {"worker-count-changes-order", "sequential-slice-with-shuffle"}

Workers = Callable[[int], None]


@pytest.fixture
def workers_are_threads(monkeypatch: pytest.MonkeyPatch) -> Workers:
    """Replace worker processes by threads of this process.

    `multithread_prefetch` slices and interleaves a pipeline just as `mp_prefetch` does.
    """
    by_threads = grain.experimental.multithread_prefetch

    def use(count: int) -> None:
        def prefetch(dataset: Any, *_: Any, sequential_slice: bool = False, **__: Any) -> Any:
            return by_threads(dataset, count, buffer_size=1, sequential_slice=sequential_slice)

        monkeypatch.setattr(grain.IterDataset, "mp_prefetch", prefetch)
        monkeypatch.setattr(grain.experimental, "multithread_prefetch", prefetch)

    return use


def judged(build: Callable[[], Any], intent: str) -> LintReport:
    """Lint a new pipeline with a recording of its source lines."""
    with record_source_lines() as recording:
        dataset = build()
    return lint(dataset, intent, recording=recording)


def first(pipeline: CorrectPipeline, count: int) -> list[Any]:
    """The first batches, as plain values."""
    return [jax.tree.map(_plain, batch) for batch in islice(pipeline.build(), count)]


def _plain(leaf: Any) -> Any:
    return leaf if isinstance(leaf, bytes) else np.asarray(leaf).tolist()


@pytest.mark.parametrize(("pipeline", "intent"), JUDGED)
def test_a_correct_pipeline_is_not_blamed(pipeline: CorrectPipeline, intent: str) -> None:
    """No error, and no warning except an expected one with a measured cost."""
    report = judged(pipeline.build, intent)
    findings = [finding for finding in report.findings if finding.severity != "info"]
    assert {finding.rule for finding in findings} == set(pipeline.expected_warnings), findings
    assert all(finding.severity == "warning" and finding.cost for finding in findings)


@pytest.mark.parametrize("pipeline", EACH)
def test_reproducible_pipelines_are_reproducible(
    pipeline: CorrectPipeline, workers_are_threads: Workers
) -> None:
    """Eight batches are the same with 0 to 3 workers, exactly if the intent says so."""

    def read(count: int) -> list[Any]:
        workers_are_threads(count)
        batches = first(pipeline, 8)
        assert len(batches) >= 2
        return batches

    alone = read(0)
    # One count whose batches differ decides; two workers differ most often.
    is_reproducible = all(read(count) == alone for count in (2, 1, 3))
    assert is_reproducible == ("reproducible" in pipeline.intents)


@pytest.mark.parametrize("pipeline", EACH)
def test_the_rules_recognise_worker_dependence(pipeline: CorrectPipeline) -> None:
    """A pipeline that is correct only for throughput has an error for reproducible."""
    findings = judged(pipeline.build, "reproducible").findings
    errors = {finding.rule for finding in findings if finding.severity == "error"}
    assert bool(errors & DEPENDS_ON_WORKERS) == ("reproducible" not in pipeline.intents)


@pytest.mark.parametrize("name", ["maxtext_first_fit", "seeded_once"])
def test_worker_processes_agree_with_threads(name: str, workers_are_threads: Workers) -> None:
    """Two worker processes give the same batches as two threads."""
    let_grain_start_workers()
    (pipeline,) = (pipeline for pipeline in CORRECT if pipeline.name == name)
    by_processes = first(pipeline, 2)
    workers_are_threads(2)
    assert first(pipeline, 2) == by_processes
