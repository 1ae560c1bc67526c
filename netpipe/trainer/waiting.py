"""Waiting for a batch, for only as long as somebody makes it."""

import time
from collections.abc import Iterator
from concurrent.futures import wait
from typing import Final

from netpipe.data.tokens.batches import Batch
from netpipe.errors import HangError, LoaderFailedError, NetpipeError, describe_error
from netpipe.session.bounded_calls import call_in_thread
from netpipe.session.processes import list_workers

_POLL_S: Final = 1.0
# Grain looks every second whether its workers run, and then raises an error of its own.
_CRASH_POLLS: Final = 4
_WAY_OUT: Final = "Start the training again from its last state"


def next_within(batches: Iterator[Batch], limit_s: float) -> Batch:
    """Return the next batch.

    A worker that is killed while it sends a batch would have Grain wait for ever, and with it all
    hosts of the training.

    Raises:
        LoaderFailedError: A worker process crashed, or an error ended the loader.
        HangError: There was no batch within the limit.
        InputError: The data are damaged.
        StopIteration: There are no more batches.
    """
    began_s = time.monotonic()
    batch = call_in_thread(lambda: next(batches))
    crash_polls = 0
    while not wait([batch], _POLL_S).done:
        crashes = [worker for worker in list_workers() if worker.crash]
        crash_polls += bool(crashes)
        if crash_polls >= _CRASH_POLLS:
            worker = crashes[0]
            message = f"worker process {worker.pid} was ended {worker.crash}. {_WAY_OUT}"
            raise LoaderFailedError(message)
        if time.monotonic() - began_s > limit_s:
            constraint = f"no batch within {limit_s:g} s, the limit network_batch_limit_s"
            raise HangError(f"{constraint}. {_WAY_OUT}")
    try:
        return batch.result()
    except (NetpipeError, StopIteration):
        raise
    except Exception as error:
        raise LoaderFailedError(f"{describe_error(error).rstrip('.')}. {_WAY_OUT}") from error
