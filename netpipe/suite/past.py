"""What the baselines of a device held of the metrics that a run compared."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median

from netpipe.harness.baseline import Baseline
from netpipe.harness.gate import why_not_comparable
from netpipe.harness.metrics import GATED, Metric
from netpipe.suite.run import Compared, Run


@dataclass(frozen=True)
class Past:
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


class Pasts:
    """Reads the baselines of each device once.

    Args:
        run: Knows where they lie.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._baselines: dict[str, tuple[Baseline, ...]] = {}

    def of(self, compared: Compared) -> tuple[Past, ...]:
        """Return what is like the measurement of now, the oldest first.

        Empty where no metric decided, and for what was held against a git ref.
        """
        metric = _METRICS.get(compared.comparison.metric)
        if metric is None or compared.against:
            return ()
        return tuple(_pasts(compared, metric, self._of_device(compared.now.device.key)))

    def _of_device(self, key: str) -> tuple[Baseline, ...]:
        if key not in self._baselines:
            self._baselines[key] = self._run.history_of(key)
        return self._baselines[key]


def _pasts(compared: Compared, metric: Metric, baselines: Sequence[Baseline]) -> Iterator[Past]:
    for held in baselines:
        sessions = held.sessions.get(compared.benchmark, ())
        if sessions and not why_not_comparable(metric, compared.now, sessions[0]):
            value = median(map(metric.value, sessions))
            yield Past(held.path.name, held.recorded, value)
