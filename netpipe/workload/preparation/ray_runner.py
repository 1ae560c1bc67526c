"""The runner for many machines: tasks on a Ray cluster, which share nothing but files."""

import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pyarrow as pa

from netpipe.errors import InputError, NetpipeError, first_line
from netpipe.files.text_files import shorten
from netpipe.workload.formats.places import Place
from netpipe.workload.preparation.tasks import Advance, Task

_ANSWER_S = 10.0
_START = "Start one: ray start --head, and on each other machine ray start --address=HOST:6379"
_LOST = "Repeat the command, which continues from there"
_SHARED = "Let --scratch name a folder on a file system that all machines share"


def run_on_ray(address: str, tasks: Sequence[Task], advance: Advance) -> None:
    """Run tasks on an existing Ray cluster, whose address `ray.init` understands.

    Raises:
        InputError: The cluster does not answer, or one of its machines lacks the work folder.
        NetpipeError: Ray gave up on a task.
    """
    # A new name each time, since a network file system may have cached an old one.
    mark = tasks[0].work / f"ray-{uuid4().hex}"
    mark.write()
    with _connected(address) as ray:
        # Ray restarts a task if its process or node dies, at most three times.
        run = ray.remote(_run)
        rows = {run.remote(task, mark): task.rows for task in tasks}
        try:
            _await(ray, rows, advance)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:
            reason = shorten(first_line(error), 200)
            raise NetpipeError(f"Ray gave up a task: {reason}. {_LOST}") from error


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    import ray

    try:
        _require_answer(ray, address)
        ray.init(address, log_to_driver=False, logging_level=logging.WARNING)
    except (OSError, ValueError, RuntimeError) as error:
        reason = shorten(first_line(error), 200)
        raise InputError(f"--address {address}", "Ray cluster", "answer", reason, _START) from error
    try:
        yield ray
    finally:
        # This kills unfinished tasks. Cancelling a task just as it ends would kill this process:
        # "You have likely discovered a bug in Ray" (2.60.0).
        ray.shutdown()


def _require_answer(ray: Any, address: str) -> None:
    """Raise an OSError if nothing answers; Ray itself would wait for a minute and a half."""
    host, _, port = address.rpartition(":")
    if "://" in address or not port.isdecimal():
        return
    if host in ("127.0.0.1", "localhost"):
        host = ray.util.get_node_ip_address()  # as Ray understands it
    socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()


def _await(ray: Any, rows: Mapping[Any, int], advance: Advance) -> None:
    waiting = list(rows)
    while waiting:
        ended, waiting = ray.wait(waiting)
        ray.get(ended)
        advance(sum(rows[task] for task in ended))


def _run(task: Task, mark: Place) -> None:
    """Run a task in a Ray process; raise an InputError if the machine lacks the work folder."""
    if mark.read() is None:
        found = f"another, or none, on {socket.gethostname()}"
        raise InputError(task.work, "work folder", "be shared by all machines", found, _SHARED)
    pa.set_cpu_count(1)  # The other cores have tasks of their own.
    task.run(lambda _: None)
