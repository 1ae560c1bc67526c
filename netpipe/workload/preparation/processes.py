"""The runner for one machine, which runs tasks in worker processes."""

import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import pyarrow as pa

from netpipe.errors import NetpipeError
from netpipe.signals import signal_when_parent_ends
from netpipe.workload.preparation.tasks import Advance, Task

_REPORT_S = 0.2
_KILLED = (
    "a process of the preparation was killed, perhaps because memory ran out: repeat the command, "
    "which continues from there, with fewer --workers"
)

_rows_done: Any = None  # in a worker: the shared counter


def run_in_processes(workers: int, tasks: Sequence[Task], advance: Advance) -> None:
    """Run tasks in new processes, which end when this one does, even if it is killed.

    Raises:
        NetpipeError: A process was killed.
    """
    # Forking a process that has threads can deadlock the child.
    context = multiprocessing.get_context("spawn")
    done, reported = context.Value("q", 0), 0
    others = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(
        min(workers, len(tasks)), context, _start_worker, (done, os.getpid())
    )
    try:
        pending = {executor.submit(task.run, _advance) for task in tasks}
        while pending:
            ended, pending = wait(pending, _REPORT_S, FIRST_EXCEPTION)
            for future in ended:
                future.result()
            # Read without the lock, which a killed worker may still hold.
            reported, before = done.get_obj().value, reported
            advance(reported - before)
    except BaseException as error:
        for child in set(multiprocessing.active_children()) - others:
            child.kill()
        if isinstance(error, BrokenProcessPool):
            raise NetpipeError(_KILLED) from error
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def _start_worker(rows_done: Any, parent: int) -> None:
    global _rows_done  # a pool can share it only through its initializer
    _rows_done = rows_done
    # A terminal sends Ctrl-C to the workers too, but only their parent should end them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal_when_parent_ends(signal.SIGKILL)
    if os.getppid() != parent:  # The parent ended before prctl: no signal will come.
        os._exit(1)
    pa.set_cpu_count(1)  # The other cores have workers of their own.


def _advance(rows: int) -> None:
    with _rows_done.get_lock():
        _rows_done.value += rows
