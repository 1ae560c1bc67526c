"""The rules that judge a pipeline's graph, and the table that lists them.

Each rule is a generator function in the file of its topic: it takes a `Pipeline` and yields
`Problem`s (`finding.py`). To add a rule, write such a function and add it to the table.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from netpipe.linting.rules import batch_contents, buffers, placement, shuffling, workers
from netpipe.linting.rules.finding import Rule


class RegisteredRule(NamedTuple):
    """An entry of the table; a `local_only` rule does not hold where reading waits."""

    find: Rule
    local_only: bool = False


_TABLE: Final = (
    # Pipelines that fail, or that yield data other than intended
    RegisteredRule(placement.nested_mp_prefetch),
    RegisteredRule(workers.cannot_be_pickled),
    RegisteredRule(workers.unparsed_flags),
    RegisteredRule(placement.device_put_before_mp_prefetch),
    RegisteredRule(batch_contents.batch_in_workers_loses_data),
    RegisteredRule(shuffling.shuffle_after_batch),
    RegisteredRule(shuffling.shuffle_after_repeat),
    RegisteredRule(shuffling.sequential_slice_with_shuffle),
    RegisteredRule(batch_contents.worker_count_changes_order),
    # Pipelines that are slower than they could be
    RegisteredRule(placement.batch_after_mp_prefetch),
    RegisteredRule(placement.map_after_mp_prefetch),
    RegisteredRule(buffers.threads_in_training_process, local_only=True),
    RegisteredRule(buffers.too_few_reads_in_flight),
    RegisteredRule(workers.no_workers),
    RegisteredRule(buffers.no_prefetch),
    RegisteredRule(buffers.threads_in_workers, local_only=True),
    RegisteredRule(workers.too_many_workers, local_only=True),
    # Pipelines that take more memory than they need
    RegisteredRule(workers.jax_in_worker),
    RegisteredRule(workers.large_capture),
    RegisteredRule(buffers.oversized_read_buffer),
    RegisteredRule(buffers.buffers_exceed_memory),
)
RULES: Final[Mapping[str, RegisteredRule]] = {
    rule.find.__name__.replace("_", "-"): rule for rule in _TABLE
}
"""Every rule by its name, most severe first: findings are reported in this order."""

LOCAL_ONLY: Final = tuple(name for name, rule in RULES.items() if rule.local_only)

NO_GRAIN_GRAPH: Final = "no-grain-graph"
"""Reported by the linter itself for a loader that is not a Grain dataset."""

UNUSED_SILENCE: Final = "unused-silence"
"""Reported by the linter itself for a silence of a rule that the pipeline does not break."""

RULE_NAMES: Final = (*RULES, NO_GRAIN_GRAPH)
"""The names that can be silenced."""


def split_silence(silence: str) -> tuple[str, str]:
    """Return the rule and the function of "RULE of FUNCTION"; the function of "RULE" is ""."""
    rule, _, function = silence.partition(" of ")
    return rule, function
