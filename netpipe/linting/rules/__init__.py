"""The rules that judge a pipeline's graph, and the registry of them.

Each rule is a generator function in the file of its topic: it takes a `Pipeline` and yields
`Problem`s (`finding.py`). A new rule is such a function and one line in `RULES`.
"""

from collections.abc import Mapping
from typing import Final

from netpipe.linting.rules import batch_contents, buffers, placement, shuffling, workers
from netpipe.linting.rules.finding import Rule

RULES: Final[Mapping[str, Rule]] = {
    # Pipelines that fail, or that give other data than meant
    "nested-mp-prefetch": placement.nested_mp_prefetch,
    "cannot-be-pickled": workers.cannot_be_pickled,
    "device-put-before-mp-prefetch": placement.device_put_before_mp_prefetch,
    "batch-in-workers-loses-data": batch_contents.batch_in_workers_loses_data,
    "shuffle-after-batch": shuffling.shuffle_after_batch,
    "shuffle-after-repeat": shuffling.shuffle_after_repeat,
    "sequential-slice-with-shuffle": shuffling.sequential_slice_with_shuffle,
    "worker-count-changes-order": batch_contents.worker_count_changes_order,
    # Pipelines that are slower than they could be
    "batch-after-mp-prefetch": placement.batch_after_mp_prefetch,
    "map-after-mp-prefetch": placement.map_after_mp_prefetch,
    "threads-in-training-process": buffers.threads_in_training_process,
    "too-few-reads-in-flight": buffers.too_few_reads_in_flight,
    "no-workers": workers.no_workers,
    "no-prefetch": buffers.no_prefetch,
    "threads-in-workers": buffers.threads_in_workers,
    "too-many-workers": workers.too_many_workers,
    # Pipelines that take more memory than they need
    "jax-in-worker": workers.jax_in_worker,
    "large-capture": workers.large_capture,
    "oversized-read-buffer": buffers.oversized_read_buffer,
    "buffers-exceed-memory": buffers.buffers_exceed_memory,
}
"""Every rule by its name, most severe first: findings are reported in this order."""

LOCAL_ONLY: Final = ("threads-in-workers", "threads-in-training-process", "too-many-workers")
"""Rules that do not hold where reading waits, which takes no core and no interpreter lock."""

NO_GRAIN_GRAPH: Final = "no-grain-graph"
"""Reported by the linter itself for a loader that is not a Grain dataset."""

UNUSED_SILENCE: Final = "unused-silence"
"""Reported by the linter itself for a silence of a rule that the pipeline does not break."""

RULE_NAMES: Final = (*RULES, NO_GRAIN_GRAPH)
"""The names that can be silenced."""


def split_silence(silence: str) -> tuple[str, str]:
    """Split "RULE of FUNCTION" into both names; the function of a plain "RULE" is ""."""
    rule, _, function = silence.partition(" of ")
    return rule, function
