"""What runs in a process that only pulls, beside the session that diagnoses, when it is told to.

It reads a number of seconds from a line of its standard input, pulls for so long, and answers with
the batches and the seconds that they took, until its input ends.
"""

import json
import os
import sys
from dataclasses import astuple


def main() -> None:
    """Serve the process that started this one; the loader's target is the only argument."""
    # What the user's code prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    from netpipe.diagnosis.blocks import Lane
    from netpipe.diagnosis.rebuilt import serial
    from netpipe.grain_workers import let_grain_start_workers
    from netpipe.harness.clock import MonotonicClock
    from netpipe.harness.targets import resolve

    let_grain_start_workers()
    loader, _ = serial(resolve(sys.argv[1]))
    lane = Lane(loader, MonotonicClock())
    answers.write(json.dumps("ready") + "\n")
    for line in sys.stdin:
        answers.write(json.dumps(astuple(lane.pulling(float(line))())) + "\n")


if __name__ == "__main__":
    main()
