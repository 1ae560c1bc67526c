"""What runs in a process that only pulls, beside the session that diagnoses, when it is told to.

It reads a number of seconds from a line of its standard input, pulls for so long, and answers with
what `PullCost` has, until its input ends; with what its loader raised, and no more, if it does.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import astuple


def main() -> None:
    """Serve the process that started this one; the loader's target is the only argument."""
    # What the user's code prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    from netpipe.diagnosis.second_process import FAILED
    from netpipe.session.bounded_calls import summarize_error

    try:
        for answer in _answers(sys.argv[1]):
            answers.write(json.dumps(answer) + "\n")
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        answers.write(json.dumps({FAILED: summarize_error(error)}) + "\n")


def _answers(target: str) -> Iterator[object]:
    from netpipe.clock import MonotonicClock
    from netpipe.diagnosis.blocks import PullingThread
    from netpipe.diagnosis.loader_variants import serial
    from netpipe.grain_workers import let_grain_start_workers
    from netpipe.session.targets import resolve

    let_grain_start_workers()
    loader, _ = serial(resolve(target))
    lane = PullingThread(loader, MonotonicClock())
    yield "ready"
    for line in sys.stdin:
        yield astuple(lane.start_pulling(float(line))())
    lane.close()


if __name__ == "__main__":
    main()
