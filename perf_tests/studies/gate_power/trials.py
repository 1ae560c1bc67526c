"""What is slowed down by how much, and the sessions that were taken of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from netpipe.gate.pairs import Pair
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
    """Two versions: one as it was, one slowed down.

    Attributes:
        name: What was done.
        before: The version as it was.
        after: The slower one; the same where nothing was done.
    """

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


@dataclass(frozen=True)
class Taken:
    """A trial and its sessions, in the order in which they were taken.

    Attributes:
        trial: What was slowed down.
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
        factor = median(_value(one.now, name) / _value(one.base, name) for one in self.pairs)
        return f"{factor:.3f} x {name}"


def _value(measurement: Measurement, name: str) -> float:
    found: Interval = getattr(measurement, name)
    return found.median


def of_each_trial(sessions: Sequence[Session]) -> Iterator[Taken]:
    """Give every trial that sessions were taken of."""
    for trial in TRIALS:
        pairs = tuple(_pairs(trial, sessions))
        if pairs:
            yield Taken(
                trial,
                tuple(one.measurement for one in sessions if one.slowdown == trial.before),
                tuple(one.measurement for one in sessions if one.slowdown == trial.after),
                pairs,
            )


def _pairs(trial: Trial, sessions: Sequence[Session]) -> Iterator[Pair]:
    """Give two sessions in a row that are of the two versions, each session once.

    Where both are the same, each is the first of every other pair, as in a run against a ref.
    """
    wanted = {trial.before, trial.after}
    place = found = 0
    while place + 1 < len(sessions):
        one, other = sessions[place], sessions[place + 1]
        if {one.slowdown, other.slowdown} == wanted:
            after_first = one.slowdown == trial.after if trial.is_slower else found % 2 == 1
            found += 1
            base, now = (other, one) if after_first else (one, other)
            yield Pair(base.measurement, now.measurement)
            place += 1
        place += 1
