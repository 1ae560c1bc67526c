"""A failure of a variant is never reported as a failure of the loader."""

import threading
from typing import Any

import grain
import numpy as np
import pytest

from netpipe.clock import Clock
from netpipe.diagnosis import investigation
from netpipe.diagnosis.diagnosis import Findings, Intervention
from netpipe.diagnosis.experiments import pulling_threads, single_thread_run, turns
from netpipe.diagnosis.investigation import Investigation
from netpipe.errors import LoaderFailedError
from netpipe.grain_access.loader_variants import (
    KEPT,
    Recorded,
    single_thread_variant,
    with_tiny_payload,
    without_stage,
)
from netpipe.grain_access.worker_start import let_grain_start_workers
from netpipe.jobs.heartbeat import UNWATCHED
from tests.diagnosis import loaders
from tests.diagnosis.examples import investigation_request, stage_time
from tests.diagnosis.examples import turns as made_turns
from tests.fakes import FakeClock


class NoSecondProcess:
    """A second process that cannot be started."""

    def __init__(self, *_: object) -> None:
        raise OSError("no process today")


@pytest.fixture(autouse=True)
def _workers(monkeypatch: pytest.MonkeyPatch) -> None:
    let_grain_start_workers()
    monkeypatch.setattr(single_thread_run, "SecondProcess", NoSecondProcess)
    # Skip nothing on a busy machine; a single round shows whether a side fails.
    monkeypatch.setattr(turns, "max_duration_s", lambda _: 1e4)
    monkeypatch.setattr(turns, "_MAX_ROUNDS", 1)


def diagnosed(loader: Any) -> Findings:
    """Diagnose a loader in this process, on one core."""
    return Investigation(loader, investigation_request(0.1), 1, Clock(), UNWATCHED).run()


def intervention(found: Findings, name: str) -> Intervention:
    """Return the intervention of a name."""
    return next(change for change in found.interventions if change.name == name)


def test_maps_that_change_their_element_in_place_are_diagnosed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every intervention gives each map an unchanged element."""
    monkeypatch.setattr(investigation, "choose_change", lambda *_: None)
    found = diagnosed(lambda: loaders.in_place(1))
    assert intervention(found, "without-stage").speedup is not None
    assert found.remarks == ()
    assert found.lane == "rebuilt"
    assert {"Source", "Map of tokenize"} <= {
        stage.name.replace("tests.diagnosis.loaders.", "") for stage in found.stages
    }


def test_a_run_without_its_slowest_map_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a fake clock, exactly the time of that map is gone."""
    clock, lock = FakeClock(), threading.Lock()

    def tokenized(element: dict[str, Any]) -> dict[str, Any]:
        with lock:  # it cannot be sent to workers
            clock.sleep(0.010)
        return loaders.tokenize(element)

    def rekeyed(element: dict[str, Any]) -> dict[str, Any]:
        clock.sleep(0.001)
        return loaders.rekey(element)

    def loader() -> Any:
        rows = grain.MapDataset.source(loaders.Rows()).repeat().map(tokenized).map(rekeyed)
        return rows.batch(4).to_iter_dataset(loaders.ALONE)

    _, graph = single_thread_variant(loader)
    slowest = next(node for node in graph.nodes if "tokenized" in str(node))
    times = (stage_time("Map of tokenized", 0.04, node=slowest),)
    monkeypatch.setattr(single_thread_run, "measure_stage_times", lambda *_: times)
    monkeypatch.setattr(pulling_threads, "core_delay_s", lambda: 0.0)
    monkeypatch.setattr(pulling_threads, "copying_s", lambda: 0.0)
    found = Investigation(loader, investigation_request(0.1), 1, clock, UNWATCHED).run()
    (without_s,) = (stage.without_s_per_batch for stage in found.stages)
    assert found.lane_s_per_batch.median == pytest.approx(0.044)
    assert without_s is not None
    assert without_s.median == pytest.approx(0.004)


@pytest.mark.parametrize("kind", ["Map of tests.diagnosis.loaders.tokenize", "Source", "Batch"])
def test_an_ablated_stage_returns_fresh_copies(kind: str) -> None:
    """The maps behind it may change their elements in place."""
    single_thread, graph = single_thread_variant(lambda: loaders.in_place(0))
    node = next(candidate.id for candidate in graph.nodes if str(candidate).startswith(kind))
    made = without_stage(single_thread, node)
    assert made is not None
    batches = [batch["inputs"].shape for batch, _ in zip(made(), range(3 * KEPT), strict=False)]
    assert batches == [(32, 64)] * 3 * KEPT


def test_arrays_are_copied_too() -> None:
    """An array that is changed in place is returned unchanged the next time."""
    recorded = Recorded(lambda: {"x": [np.zeros(3)]})
    for _ in range(3 * KEPT):
        result = recorded()
        assert result["x"][0].tolist() == [0.0, 0.0, 0.0]
        result["x"][0] += 1
        del result["x"][1:]


def test_the_first_batch_is_sent_as_a_fresh_copy() -> None:
    """A map behind the workers may change the batch that replaces the others."""
    _, graph = single_thread_variant(loaders.renamed_behind_worker)
    made = with_tiny_payload(loaders.renamed_behind_worker, graph)
    assert [sorted(batch) for batch, _ in zip(made(), range(3), strict=False)] == [
        ["id", "inputs"]
    ] * 3


def test_an_intervention_that_raises_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The intervention has the reason, and the rest of the diagnosis stays."""

    def broken() -> Any:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr(single_thread_run, "without_stage", lambda *_: broken)
    found = diagnosed(loaders.unsendable)
    assert "ValueError: a mistake" in intervention(found, "without-stage").says
    assert intervention(found, "two-threads").speedup is not None
    assert "OSError: no process" in intervention(found, "two-processes").says
    assert found.stages
    assert found.what_if


@pytest.mark.parametrize("name", ["without_stage", "measure_stage_times"])
def test_an_intervention_that_cannot_be_prepared_is_dropped(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The part and its error are named, without blaming the loader."""

    def fail(*_: object) -> Any:
        failed = "the loader failed after 0 batches: KeyError: 'text'"
        raise LoaderFailedError(failed) from KeyError("text")

    for module in (single_thread_run, investigation):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, fail)
    found = diagnosed(loaders.unsendable)
    said = [*found.remarks, *(text.says for text in found.interventions)]
    assert any("KeyError: 'text'" in text for text in said)
    assert not any("the loader failed" in text for text in said)
    assert found.load_s_per_batch.median > 0


def test_a_loader_that_needs_its_workers_is_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader cannot run in one thread: a remark says so, and it is diagnosed unmodified."""
    # Starting workers repeatedly takes long.
    run, times = single_thread_run.SingleThreadRun, (stage_time("Map", 0.01),)
    monkeypatch.setattr(single_thread_run, "measure_stage_times", lambda *_: times)
    monkeypatch.setattr(run, "measure_scaling", lambda *_: made_turns(single_thread=0.01))
    monkeypatch.setattr(investigation, "measure_in_turns", lambda *_: made_turns(unmodified=0.01))
    found = diagnosed(loaders.works_in_workers_alone)
    assert found.lane == "as-it-is"
    assert found.workers == 1
    assert any("in one thread" in remark and "'offset'" in remark for remark in found.remarks)


def test_a_loader_that_fails_unmodified_is_reported_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader's own failure ends the diagnosis before any variant of it runs."""
    monkeypatch.setattr(single_thread_run, "measure_stage_times", None)

    def loader() -> Any:
        return loaders.plain().map(lambda batch: batch["text"]).mp_prefetch(loaders.ONE_WORKER)

    with pytest.raises(LoaderFailedError, match="after 0 batches"):
        diagnosed(loader)
