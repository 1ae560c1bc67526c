"""Evaluation: every context once, in a fixed order, after as many batches on every host."""

import dataclasses
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from netpipe.workload.config import BATCH_ARRAYS, PipelineConfig
from netpipe.workload.pipeline import build_evaluation
from netpipe.workload.sampling.context_order import contexts_per_row
from netpipe.workload.sources.probe_rows import open_source
from netpipe.workload.tokens.batches import Batch

CONFIG = PipelineConfig(seed=3, sequence_length=256, batch_size=6, workers=0)


def read(data: Path, host: int = 0, hosts: int = 1, **settings: int) -> list[Batch]:
    """Return all batches of a host."""
    config = dataclasses.replace(CONFIG, shard_index=host, shard_count=hosts)
    return list(build_evaluation(data, dataclasses.replace(config, **settings)))  # type: ignore[arg-type]


def lines(batches: list[Batch]) -> Counter[bytes]:
    """Count the sequences that are not padding."""
    return Counter(
        line.tobytes()
        for batch in batches
        for line, segments in zip(batch["inputs"], batch["inputs_segmentation"], strict=True)
        if segments.any()
    )


@pytest.mark.parametrize("hosts", [1, 2, 3, 8])
def test_hosts_together_see_every_context_once(many: Path, hosts: int) -> None:
    """Every context comes once, and all hosts have the same number of batches."""
    contexts = int(contexts_per_row(open_source(many, "train").row_measurements).sum())
    given = [read(many, host, hosts) for host in range(hosts)]
    seen = lines([batch for batches in given for batch in batches])
    assert seen == lines(read(many))
    assert sum(seen.values()) == contexts
    assert {len(batches) for batches in given} == {-(-contexts // (6 * hosts))}


def test_the_last_batch_is_filled_with_masked_padding(prepared: Path) -> None:
    """All batches have one shape; where there is no context, nothing has a segment."""
    contexts = int(contexts_per_row(open_source(prepared, "train").row_measurements).sum())
    assert contexts % 6
    *whole, last = read(prepared)
    assert {last[name].shape for name in BATCH_ARRAYS} == {(6, 256)}
    assert {last[name].dtype for name in BATCH_ARRAYS} == {np.dtype(np.int32)}
    assert all(batch["targets_segmentation"].any(axis=1).all() for batch in whole)
    missing = last["inputs_segmentation"].any(axis=1).tolist()
    assert missing == [index < contexts % 6 for index in range(6)]
    for name in BATCH_ARRAYS:
        assert not last[name][contexts % 6 :].any()


def test_a_host_may_have_only_padding_at_the_end(prepared: Path) -> None:
    """A host without contexts takes part in the last step."""
    final = read(prepared, 7, 8)[-1]
    assert {final[name].shape for name in BATCH_ARRAYS} == {(6, 256)}
    assert not any(final[name].any() for name in BATCH_ARRAYS)


def test_it_is_the_same_each_time(prepared: Path) -> None:
    """In a second pass, with workers, and in larger batches the contexts come in the same order."""
    first = np.concatenate([batch["inputs"] for batch in read(prepared)])
    np.testing.assert_array_equal(
        np.concatenate([batch["inputs"] for batch in read(prepared, workers=2)]), first
    )
    large = np.concatenate([batch["inputs"] for batch in read(prepared, batch_size=18)])
    np.testing.assert_array_equal(large[: len(first)], first[: len(large)])
