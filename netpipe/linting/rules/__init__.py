"""The rules that judge a pipeline's graph, and the table that lists them.

Each rule is a generator function in the file of its topic: it takes a `Pipeline` and yields
`Problem`s (`finding.py`). To add a rule, write such a function and add it to the table.
"""

from collections.abc import Sequence
from typing import Final

from netpipe.linting.rules import batch_contents, buffers, placement, shuffling, workers
from netpipe.linting.rules.finding import Rule

_TABLE: Final[Sequence[Rule]] = (
    # Pipelines that fail, or that yield data other than intended
    placement.nested_mp_prefetch,
    workers.cannot_be_pickled,
    workers.unparsed_flags,
    placement.device_put_before_mp_prefetch,
    batch_contents.batch_in_workers_loses_data,
    shuffling.shuffle_after_batch,
    shuffling.shuffle_after_repeat,
    shuffling.sequential_slice_with_shuffle,
    batch_contents.worker_count_changes_order,
    # Pipelines that are slower than they could be
    placement.batch_after_mp_prefetch,
    placement.map_after_mp_prefetch,
    buffers.threads_in_training_process,
    buffers.too_few_reads_in_flight,
    workers.no_workers,
    buffers.no_prefetch,
    buffers.threads_in_workers,
    workers.too_many_workers,
    # Pipelines that take more memory than they need
    workers.jax_in_worker,
    workers.large_capture,
    buffers.oversized_read_buffer,
    buffers.buffers_exceed_memory,
)
RULES: Final = {rule.__name__.replace("_", "-"): rule for rule in _TABLE}
"""Every rule by its name, most severe first: findings are reported in this order."""

LOCAL_ONLY: Final = ("threads-in-training-process", "threads-in-workers", "too-many-workers")
"""The rules that do not hold where reading waits."""

NO_GRAIN_GRAPH: Final = "no-grain-graph"
"""Reported by the linter itself for a loader that is not a Grain dataset."""

RULE_NAMES: Final = (*RULES, NO_GRAIN_GRAPH)
"""The names that can be silenced."""
