"""Kills a training of a test as a whole."""

import subprocess
from contextlib import suppress

import psutil

from netpipe.jobs.processes import is_resource_tracker


def kill_with_workers(training: "subprocess.Popen[str]") -> None:
    """Kill a process and all its workers, without a chance to clean up.

    Python's resource tracker stays: it removes their semaphores and ends.
    """
    workers = psutil.Process(training.pid).children(recursive=True)
    training.kill()
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            if not is_resource_tracker(worker.pid):
                worker.kill()
