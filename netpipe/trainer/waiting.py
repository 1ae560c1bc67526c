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


class AwaitedBatches(Iterator[Batch]):
    """Batches of a loader, of which each is waited for only as long as somebody makes it.

    A worker that is killed while it sends a batch would have Grain wait for ever, and with it all
    hosts of the training. After an error, `next` raises that error again: the thread in which the
    loader was called may still take a batch, which nobody would see.
    """

    def __init__(self, batches: Iterator[Batch], limit_s: float) -> None:
        self._batches = batches
        self._limit_s = limit_s
        self._failure: NetpipeError | None = None

    def __next__(self) -> Batch:
        """Return the next batch.

        Raises:
            LoaderFailedError: A worker process crashed, or an error ended the loader.
            HangError: There was no batch within the limit.
            InputError: The data are damaged.
        """
        if self._failure is not None:
            raise self._failure
        try:
            return self._wait()
        except NetpipeError as error:
            self._failure = error
            raise

    def _wait(self) -> Batch:
        began_s = time.monotonic()
        batch = call_in_thread(lambda: next(self._batches))
        crash_polls = 0
        while not wait([batch], _POLL_S).done:
            crashes = [worker for worker in list_workers() if worker.crash]
            crash_polls += bool(crashes)
            if crash_polls >= _CRASH_POLLS:
                crash = f"worker process {crashes[0].pid} was ended {crashes[0].crash}"
                raise LoaderFailedError(f"{crash}. {_WAY_OUT}")
            if time.monotonic() - began_s > self._limit_s:
                limit = f"{self._limit_s:g} s, the limit network_batch_limit_s"
                raise HangError(f"no batch within {limit}. {_WAY_OUT}")
        try:
            return batch.result()
        except (NetpipeError, StopIteration):
            raise
        except Exception as error:
            failure = describe_error(error).rstrip(".")
            raise LoaderFailedError(f"{failure}. {_WAY_OUT}") from error
