"""What is slowed down by how much, and the sessions that were taken of it."""

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
_REMOTE: Final = 200  # doses, 20 ms: what a batch from remote storage waits for


@dataclass(frozen=True)
class Trial:
    """Two versions, one as it was, one slowed down; the same where nothing was done."""

    name: str
    before: Slowdown
    after: Slowdown

    @property
    def is_slower(self) -> bool:
        """Whether anything was done."""
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
    """A session as it was and a slower one, taken one right after the other."""

    base: Measurement
    now: Measurement


@dataclass(frozen=True)
class TrialSessions:
    """A trial and its sessions, in the order in which they were taken.

    Attributes:
        before: All sessions of the version as it was, of other trials too.
        after: The sessions of the slower one.
        pairs: A session of each, taken one right after the other.
    """

    trial: Trial
    before: tuple[Measurement, ...]
    after: tuple[Measurement, ...]
    pairs: tuple[Pair, ...]

    @property
    def slower(self) -> str:
        """By what factor the pairs were slower, in the figure that the slowdown moves."""
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
    """Yield two sessions in a row that are of the two versions, each session once.

    Where both are the same, each is the first of every other pair.
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
