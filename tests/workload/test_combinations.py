"""Choices of the pipeline's settings."""

import json
from dataclasses import replace
from pathlib import Path

from netpipe.throughput.sessions import measure_in_turns
from netpipe.workload.combinations import combinations, load
from netpipe.workload.config import PipelineConfig

PIPELINE = PipelineConfig(sequence_length=1024, batch_size=128, workers=2, epochs=3)


def test_lists_give_every_combination_once() -> None:
    """Combinations are in order, without an end of the data, and with all other settings kept."""
    found = combinations(Path("data"), PIPELINE, [256, 512, 256], [0, 2])
    assert [(each.batch_size, each.workers) for each in found] == [
        (256, 0), (256, 2), (512, 0), (512, 2),
    ]  # fmt: skip
    kept = vars(replace(PIPELINE, batch_size=256, epochs=None))
    assert found[0].target.arguments == ("data", kept)
    (own,) = combinations(Path("data"), PIPELINE, [], [])
    assert own.target.arguments == ("data", vars(replace(PIPELINE, epochs=None)))
    assert (own.batch_size, own.workers) == (128, 2)


def test_a_session_measures_a_combination(prepared: Path) -> None:
    """The arguments give the same configuration again, in another process."""
    config = PipelineConfig(batch_size=4, workers=0)
    (combination,) = combinations(prepared, config, [], [])
    target = combination.target
    assert (target.where, target.name) == (load.__module__, "load")
    assert json.loads(json.dumps(target.arguments)) == [str(prepared), vars(config)]
    ((run,),) = measure_in_turns([combination], 1, 0.1, lambda *_: None)
    assert run.examples == 4 * run.batches
