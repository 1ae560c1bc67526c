"""What the baselines of a device held of the metrics that a run compared."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from statistics import median

from netpipe.gate.comparison import why_not_comparable
from netpipe.gate.metrics import GATED
from netpipe.suite.run import GateResult, Run


@dataclass(frozen=True)
class PastValue:
    """A metric of a benchmark in one baseline.

    Attributes:
        baseline: The name of its file.
        recorded: When, as ISO 8601.
        value: The median over its sessions, in the metric's unit.
    """

    baseline: str
    recorded: str
    value: float


_METRICS = {one.name: one for one in chain.from_iterable(GATED.values())}


def read_history(run: Run, compared: GateResult) -> Iterator[PastValue]:
    """Give what the baselines of its device held of a metric, the oldest first.

    Nothing where no metric decided, for what was compared with a git ref, and of baselines that the
    measurement cannot be compared with.
    """
    metric = _METRICS.get(compared.comparison.metric)
    if metric is None or compared.against:
        return
    for held in run.baselines_of(compared.now.device.key):
        sessions = held.sessions.get(compared.benchmark, ())
        if sessions and not why_not_comparable(metric, compared.now, sessions[0]):
            value = median(map(metric.value, sessions))
            yield PastValue(held.path.name, held.recorded, value)
