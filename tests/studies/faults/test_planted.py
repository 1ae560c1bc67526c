"""The names and resources that count as right answers about a case."""

import grain
import numpy as np
import pytest

from perf_tests.studies.faults.cases import Case
from perf_tests.studies.faults.catalogue import CASES
from perf_tests.studies.faults.heavy_batches import DiskRows, file_of_noise, sending
from perf_tests.studies.faults.planted import (
    NO_STAGE,
    PYTHON,
    SLOW_START,
    SOURCE,
    Planted,
    waits,
)

PLANTED = [case for case in CASES if case.planted]


@pytest.mark.parametrize(
    ("planted", "name"),
    [
        (waits(SOURCE), "Source"),
        (waits("Transform"), "MapWithIndex of perf_tests.studies.faults.grain_loaders.Transform"),
        (waits(PYTHON), "in_main_thread > wait"),
        (waits("_collate"), "TorchStyle.__iter__ > TorchStyle._collate > wait"),
        (Planted((NO_STAGE,), ("device-transfer",)), None),
        (Planted(("ProcessPrefetch", NO_STAGE), ("cpu",), "either"), None),
    ],
)
def test_a_stage_is_known_by_a_word_of_its_name(planted: Planted, name: str | None) -> None:
    """A stage is matched by its kind or by any function in its call chain."""
    assert planted.is_stage(name)


@pytest.mark.parametrize(
    ("planted", "name"),
    [
        (waits(SOURCE), "Batch"),
        (waits(SOURCE), None),
        (waits("Transform"), "Map of somewhere.Transformer"),
        (waits(PYTHON), "wait"),
        (Planted((NO_STAGE,), ("device-transfer",)), "in_main_thread > wait"),
    ],
)
def test_another_stage_is_not_it(planted: Planted, name: str | None) -> None:
    """A helper that spends the time is not a right answer without its caller."""
    assert not planted.is_stage(name)


def test_a_resource_is_right_if_it_is_among_them() -> None:
    """Only the listed resources count as right."""
    both = Planted((SOURCE,), ("cpu", "gil"), "either")
    assert both.is_resource("cpu")
    assert both.is_resource("gil")
    assert not both.is_resource("waiting")


@pytest.mark.parametrize(
    ("stages", "resources"),
    [((), ("cpu",)), (("a",), ()), (("a",), ("ram",)), (("a", "b"), ("cpu",))],
)
def test_an_answer_is_needed_and_a_reason_for_two(
    stages: tuple[str, ...], resources: tuple[str, ...]
) -> None:
    """Impossible answers, and several without a reason, are refused."""
    with pytest.raises(AssertionError):
        Planted(stages, resources)


def test_enough_cases_have_a_stage_and_every_resource_that_can_be_planted() -> None:
    """At least 25 cases have a stage; they cover ten resources and slow starts."""
    assert len(PLANTED) >= 25
    assert {
        resource for case in PLANTED if case.planted for resource in case.planted.resources
    } == {
        *("cpu", "gil", "disk", "memory"),
        *("process-transfer", "device-transfer", "waiting"),
        *("read-latency", "read-bandwidth", "read-throttling", SLOW_START),
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_only_what_loads_slowly_has_a_stage(case: Case) -> None:
    """Only slow loading has a stage; controls, syncs, compilation and donation have none."""
    slow = {"loading", "buffers", "resources", "jitter", "at-risk"}
    stored = {"latency", "bandwidth", "throttling", "cold-cache", "slow-shard", "slow-start"}
    beside = {"transfer-bound", "contention"}
    is_planted = case.family in {*slow, *stored, *beside} and not case.is_control
    assert bool(case.planted) is is_planted


def test_rows_of_a_disk_are_read_whole() -> None:
    """The file has the requested size, and any row can be read."""
    path = file_of_noise(3_000_000)
    assert path.stat().st_size == 3_000_000
    rows = DiskRows(path, 3_000_000 // 32)
    assert np.array_equal(rows[33], np.full(256, 33, np.int32))


def test_what_is_sent_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch has the requested size."""
    monkeypatch.setattr(grain.IterDataset, "mp_prefetch", lambda dataset, _: dataset)
    batch = next(iter(sending(2.0)))
    assert batch["features"].nbytes == 2_000_000
