"""Choices of the pipeline's settings."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from netpipe.throughput.sessions import measure_in_turns
from netpipe.workload.combinations import Combination, combinations, load
from netpipe.workload.config import PipelineConfig
from netpipe.workload.pipeline import sequences_of_batches
from netpipe.workload.tokens.batches import widen

PIPELINE = PipelineConfig(sequence_length=1024, batch_size=128, workers=2, epochs=3)


def test_lists_give_every_combination_once() -> None:
    """Combinations are in order, without an end of the data, and with all other settings kept."""
    found = combinations(Path("data"), PIPELINE, [256, 512, 256], [0, 2])
    assert [(each.pipeline.batch_size, each.pipeline.workers) for each in found] == [
        (256, 0), (256, 2), (512, 0), (512, 2),
    ]  # fmt: skip
    assert found[0].pipeline == replace(PIPELINE, batch_size=256, workers=0, epochs=None)
    (own,) = combinations(Path("data"), PIPELINE, [], [])
    assert own == Combination(Path("data"), replace(PIPELINE, epochs=None))


def test_the_estimate_is_that_of_real_arrays(prepared: Path) -> None:
    """The estimate is exact for a batch, and 3% low at most for its sequences."""
    config = PipelineConfig(sequence_length=1024, batch_size=16, workers=0)
    sequences = next(iter(sequences_of_batches(prepared, config)))
    alone = Combination(prepared, config).waiting_bytes
    assert sum(array.nbytes for array in widen(sequences).values()) == alone
    working = Combination(prepared, replace(config, workers=1)).waiting_bytes
    assert sum(array.nbytes for array in sequences.values()) == pytest.approx(working, rel=0.03)


def test_a_session_measures_a_combination(prepared: Path) -> None:
    """The arguments give the same configuration again, in another process."""
    config = PipelineConfig(batch_size=4, workers=0)
    combination = Combination(prepared, config)
    (target,) = combination.request_fields["targets"].values()
    assert (target.where, target.name) == (load.__module__, "load")
    assert json.loads(json.dumps(target.arguments)) == [str(prepared), vars(config)]
    ((run,),) = measure_in_turns([combination], 1, 0.1, lambda *_: None)
    assert run.examples == 4 * run.batches
