"""What is measured: combinations of settings."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from netpipe.config import PipelineConfig
from netpipe.data.pipeline import sequences_of_batches
from netpipe.data.tokens.batches import widen
from netpipe.throughput.subjects import Combination, Foreign, combinations

PIPELINE = PipelineConfig(sequence_length=1024, batch_size=128, workers=2, epochs=3)


def test_lists_give_every_combination_once() -> None:
    """In their order, on data that never end, with all other settings as they were."""
    found = combinations(Path("data"), PIPELINE, [256, 512, 256], [0, 2])
    assert [(one.pipeline.batch_size, one.pipeline.workers) for one in found] == [
        (256, 0), (256, 2), (512, 0), (512, 2),
    ]  # fmt: skip
    assert found[0].pipeline == replace(PIPELINE, batch_size=256, workers=0, epochs=None)


def test_without_lists_there_is_what_is_configured() -> None:
    """One combination, that of the pipeline."""
    (found,) = combinations(Path("data"), PIPELINE, [], [])
    assert found == Combination(Path("data"), replace(PIPELINE, epochs=None))


@pytest.mark.parametrize(
    ("workers", "estimate"),
    [
        (0, "1 thread x 2 batches x 3.1 MB = 6.3 MB of finished batches"),
        (1, "1 worker x 2 batches x 0.26 MB = 0.52 MB of finished batches"),
        (2, "2 workers x 2 batches x 0.26 MB = 1 MB of finished batches"),
    ],
)
def test_the_memory_of_finished_batches_is_estimated(workers: int, estimate: str) -> None:
    """Makers times batches that each holds times the bytes of one."""
    combination = Combination(Path("data"), replace(PIPELINE, workers=workers))
    assert combination.memory_estimate == estimate


def test_what_waits_has_the_bytes_that_are_estimated(prepared: Path) -> None:
    """Exact for a batch, and for its sequences except for the sizes of segments."""
    config = PipelineConfig(sequence_length=1024, batch_size=16, workers=0)
    sequences = next(iter(sequences_of_batches(prepared, config)))
    alone = Combination(prepared, config).waiting_bytes
    assert sum(array.nbytes for array in widen(sequences).values()) == alone
    working = Combination(prepared, replace(config, workers=1)).waiting_bytes
    assert sum(array.nbytes for array in sequences.values()) == pytest.approx(working, rel=0.03)


def test_a_session_gets_the_whole_pipeline() -> None:
    """Its arguments make the same configuration again."""
    words = Combination(Path("data"), PIPELINE).words
    assert words[:3] == ["--data", "data", "--pipeline"]
    assert PipelineConfig(**json.loads(words[3])) == PIPELINE
    assert Foreign("a:b").words == ["--target", "a:b"]
