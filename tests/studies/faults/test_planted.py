"""The names and resources that count as right answers about a case."""

import pytest

from perf_tests.studies.faults.planted import NO_STAGE, PYTHON, SOURCE, Planted, waits


@pytest.mark.parametrize(
    ("planted", "name"),
    [
        (waits(SOURCE), "Source"),
        (
            waits("Transform"),
            "MapWithIndex of perf_tests.studies.faults.parts.grain_loaders.Transform",
        ),
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
