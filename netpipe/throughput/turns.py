"""Sessions in turns: every combination once, then every one again."""

import sys
from collections.abc import Callable, Sequence
from typing import Final

from netpipe.session.parent import run_session
from netpipe.session.request import SessionRequest
from netpipe.throughput.figures import Tally
from netpipe.throughput.run import longest_s
from netpipe.throughput.subjects import Subject

KIND: Final = "throughput"

_START_S: Final = 4.0  # the imports, the first batch, and the end of a session
_SLOW_BATCHES_S: Final = 60.0  # what a run may take beyond that of a loader with quick batches


def measure_in_turns(
    subjects: Sequence[Subject],
    rounds: int,
    seconds: float,
    say: Callable[[int, Subject], None],
) -> list[tuple[Tally, ...]]:
    """Measure each subject once a round, each time in a fresh process.

    What else the machine does then touches all of them alike.

    Args:
        subjects: What is measured, in the order of a round.
        rounds: How many there are, at least 1.
        seconds: How long each run measures the steady state.
        say: Is told, before each run, how many runs are done, and what comes.

    Returns:
        What the runs of each subject counted, in the order of the rounds.

    Raises:
        MisuseError: A loader is not what it must be, or its data are not.
        SessionError: A run crashed, hung or ran out of time.
    """
    runs: list[list[Tally]] = [[] for _ in subjects]
    for number in range(rounds):
        for place, subject in enumerate(subjects):
            say(number * len(subjects) + place, subject)
            runs[place].append(measure_once(subject, seconds))
    return [tuple(of_subject) for of_subject in runs]


def expected_s(subjects: int, rounds: int, seconds: float) -> float:
    """Return about how many seconds it will take."""
    return subjects * rounds * (_START_S + longest_s(seconds) - seconds / 2)


def measure_once(subject: Subject, seconds: float) -> Tally:
    """Measure a subject for so long, in a fresh process.

    Raises:
        MisuseError: A loader is not what it must be, or its data are not.
        SessionError: The run crashed, hung or ran out of time.
    """
    command = [sys.executable, "-P", "-m", "netpipe.throughput.child", "--seconds", str(seconds)]
    request = SessionRequest(KIND, budget_s=longest_s(seconds) + _SLOW_BATCHES_S)
    return Tally(**run_session([*command, *subject.words], request))
