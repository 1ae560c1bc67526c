"""Planted slowdowns and their sessions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, NamedTuple

from netpipe.results.measurement import Interval, Measurement
from perf_tests.studies.gate_power.live import Session
from perf_tests.studies.gate_power.slowdowns import Slowdown

_MOVES: Final = {
    "none": "load_cpu_ratio",
    "cpu": "load_cpu_ratio",
    "wait": "load_s_per_batch",
    "step": "step_s",
    "transfer": "step_transfer_s",
}
_REMOTE: Final = 200  # doses: 20 ms, like the wait of a batch for remote storage


@dataclass(frozen=True)
class Trial:
    """The original version and a slowed one; both are the same without a slowdown."""

    name: str
    before: Slowdown
    after: Slowdown

    @property
    def is_slower(self) -> bool:
        """Whether the second version is slowed down."""
        return self.before != self.after


TRIALS: Final = (
    Trial("nothing", Slowdown(), Slowdown()),
    Trial("loader CPU, 2%", Slowdown(), Slowdown("cpu", 5)),
    Trial("loader CPU, 5%", Slowdown(), Slowdown("cpu", 12)),
    Trial("loader CPU, 10%", Slowdown(), Slowdown("cpu", 23)),
    Trial("loader CPU, 20%", Slowdown(), Slowdown("cpu", 46)),
    Trial("loader wait, 5%", Slowdown("wait", _REMOTE), Slowdown("wait", 215)),
    Trial("loader wait, 10%", Slowdown("wait", _REMOTE), Slowdown("wait", 230)),
    Trial("loader wait, 20%", Slowdown("wait", _REMOTE), Slowdown("wait", 260)),
    Trial("step, 10%", Slowdown(), Slowdown("step", 100)),
    Trial("step, 20%", Slowdown(), Slowdown("step", 200)),
    Trial("transfer, 20%", Slowdown(), Slowdown("transfer", 2)),
)


class Pair(NamedTuple):
    """Consecutive sessions of the original and the slowed version."""

    base: Measurement
    now: Measurement


@dataclass(frozen=True)
class TrialSessions:
    """A trial and its sessions, in the order in which they were taken.

    Attributes:
        before: All sessions of the original version, of other trials too.
        after: The sessions of the slowed version.
        pairs: Consecutive sessions of both versions.
    """

    trial: Trial
    before: tuple[Measurement, ...]
    after: tuple[Measurement, ...]
    pairs: tuple[Pair, ...]

    @property
    def slower(self) -> str:
        """The factor between the pairs in the metric that the slowdown changes."""
        name = _MOVES[self.trial.after.kind]
        factor = median(_value(pair.now, name) / _value(pair.base, name) for pair in self.pairs)
        return f"{factor:.3f} x {name}"


def _value(measurement: Measurement, name: str) -> float:
    found: Interval = getattr(measurement, name)
    return found.median


def group_by_trial(sessions: Sequence[Session]) -> Iterator[TrialSessions]:
    """Yield every trial that has sessions."""
    for trial in TRIALS:
        pairs = tuple(_pairs(trial, sessions))
        if pairs:
            yield TrialSessions(
                trial,
                _select(sessions, trial.before),
                _select(sessions, trial.after),
                pairs,
            )


def _select(sessions: Sequence[Session], slowdown: Slowdown) -> tuple[Measurement, ...]:
    return tuple(session.measurement for session in sessions if session.slowdown == slowdown)


def _pairs(trial: Trial, sessions: Sequence[Session]) -> Iterator[Pair]:
    """Yield consecutive sessions of the two versions, each session once.

    If both versions are the same, they take turns in being first.
    """
    count = 0
    left = iter(sessions)
    earlier = next(left, None)
    for later in left:
        if earlier is None or {earlier.slowdown, later.slowdown} != {trial.before, trial.after}:
            earlier = later
            continue
        after_first = earlier.slowdown == trial.after if trial.is_slower else count % 2 == 1
        base, now = (later, earlier) if after_first else (earlier, later)
        yield Pair(base.measurement, now.measurement)
        count += 1
        earlier = None
