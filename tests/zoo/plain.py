"""Measure a loader without netpipe: `python -m tests.zoo.plain TARGET`.

Prints wall and CPU seconds per batch in a plain loop, and the fraction of the CPU time that
`augment` takes, without workers if the loader can do without.
"""

import json
import sys
import time
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from inspect import signature
from itertools import islice
from typing import Any

import psutil

from tests.zoo.images import Augmenting

# All workers have started by then.
_WARM_UP_S = 4.0
_LOOP_S = 4.0
_BATCHES_ALONE = 20


def main() -> None:
    """Measure the loader named on the command line."""
    module, _, name = sys.argv[1].partition(":")
    loader: Callable[..., Any] = getattr(import_module(module), name)
    batches = _repeat(loader)
    _pull(batches, _WARM_UP_S)
    cpu_s, started_s = _cpu_s(), time.perf_counter()
    pulled = _pull(batches, _LOOP_S)
    s_per_batch, cpu_s = (time.perf_counter() - started_s) / pulled, (_cpu_s() - cpu_s) / pulled
    batches.close()
    share = _augment_share(loader)
    found = {"s_per_batch": s_per_batch, "cpu_s_per_batch": cpu_s, "augment_share": share}
    sys.stdout.write(json.dumps(found))


def _repeat(loader: Callable[..., Any], **settings: Any) -> Generator[Any]:
    while True:
        yield from loader(**settings)


def _pull(batches: Iterator[Any], seconds: float) -> int:
    pulled, until_s = 0, time.perf_counter() + seconds
    while not pulled or time.perf_counter() < until_s:
        next(batches)
        pulled += 1
    return pulled


def _cpu_s() -> float:
    """Return the CPU seconds of this process and its descendants, including ended ones."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(process.cpu_times()[:4]) for process in processes)


def _augment_share(loader: Callable[..., Any]) -> float:
    can_choose = "workers" in signature(loader).parameters
    batches = _repeat(loader, **({"workers": 0} if can_choose else {}))
    list(islice(batches, 2))  # one-time work
    process_s, augment_s = time.process_time(), Augmenting.cpu_s
    list(islice(batches, _BATCHES_ALONE))
    return (Augmenting.cpu_s - augment_s) / (time.process_time() - process_s)


if __name__ == "__main__":
    main()
