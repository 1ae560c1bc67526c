"""Throughput measured in fresh processes, several subjects in turns."""

import sys
from collections.abc import Callable, Sequence
from typing import Final

from netpipe.measuring.interleaving import Interleaved, interleave
from netpipe.session.parent import run_session
from netpipe.session.request import SessionRequest
from netpipe.throughput.figures import Tally
from netpipe.throughput.run import longest_s
from netpipe.throughput.subjects import Subject

KIND: Final = "throughput"

# The imports, the first batch, and the end of a session.
_START_S: Final = 4.0
# What a loader with slow batches may take beyond one with quick batches.
_SLOW_BATCHES_S: Final = 60.0


def measure_in_turns(
    subjects: Sequence[Subject],
    rounds: int,
    seconds: float,
    say: Callable[[int, Subject], None],
) -> list[tuple[Tally, ...]]:
    """Measure each subject once a round, each time in a fresh process.

    Args:
        subjects: What is measured, in the order of the first round.
        rounds: At least 1.
        seconds: How long each run measures the steady state.
        say: Called before each run with the number of finished runs and the subject.

    Returns:
        What the runs of each subject counted, in the order of the rounds.

    Raises:
        MisuseError: A loader is not what it must be, or its data are not.
        SessionError: A run crashed, hung or ran out of time.
    """
    finished = 0

    def measure(place: int) -> Tally:
        nonlocal finished
        say(finished, subjects[place])
        finished += 1
        return measure_once(subjects[place], seconds)

    def wants_round(done: Interleaved[int, Tally]) -> bool:
        return len(done.rounds) < rounds

    done = interleave(range(len(subjects)), measure, wants_round)
    return [tuple(done.results(place)) for place in range(len(subjects))]


def expected_s(subjects: int, rounds: int, seconds: float) -> float:
    """Return about how many seconds the rounds will take."""
    return subjects * rounds * (_START_S + longest_s(seconds) - seconds / 2)


def measure_once(subject: Subject, seconds: float) -> Tally:
    """Measure a subject's steady state for some seconds, in a fresh process.

    Raises:
        MisuseError: A loader is not what it must be, or its data are not.
        SessionError: The run crashed, hung or ran out of time.
    """
    command = [sys.executable, "-P", "-m", "netpipe.throughput.child", "--seconds", str(seconds)]
    request = SessionRequest(KIND, budget_s=longest_s(seconds) + _SLOW_BATCHES_S)
    return Tally(**run_session([*command, *subject.words], request))
