"""The state of a training's pipeline, told every few seconds on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Final

import grain
from grain._src.python.dataset.dataset import get_execution_summary

from netpipe.session.footprint import read_memory
from netpipe.session.processes import ProcessTree
from netpipe.text_files import shorten

_HEADING: Final = f"{'of wait':>9}  {'ms each':>8}  {'elements':>9}  {'buffered':>8}  stage"


class StateLog:
    """Tells how fast batches come, which stage training waits for, buffers and memory.

    Args:
        host: Names this process.
        iterator: Returns the iterator of Grain, which collects times, or None before it started.
    """

    def __init__(
        self, host: str, period_s: float, iterator: Callable[[], grain.DatasetIterator | None]
    ) -> None:
        self._host = host
        self._iterator = iterator
        self._told_s = time.monotonic()
        self._batches, self._waited_s = 0, 0.0
        self._over = Event()
        Thread(target=self._run, args=(period_s,), name="netpipe-state-log", daemon=True).start()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count a batch, and the time until it is there."""
        began_s = time.monotonic()
        yield
        self._waited_s += time.monotonic() - began_s
        self._batches += 1

    def close(self) -> None:
        """Tell nothing more."""
        self._over.set()

    def _run(self, period_s: float) -> None:
        while not self._over.wait(period_s):
            sys.stderr.write("\n".join(self.lines()) + "\n")
            sys.stderr.flush()

    def lines(self) -> list[str]:
        """Return the state since the last call, and of each stage since the start."""
        now_s = time.monotonic()
        passed_s = now_s - self._told_s
        batches, self._batches = self._batches, 0
        waited_s, self._waited_s = self._waited_s, 0.0
        self._told_s = now_s
        memory_mb = read_memory()[0] / 1e6
        state = (
            f"netpipe, {self._host}: {batches} batches in {passed_s:.1f} s, "
            f"{min(1.0, waited_s / passed_s):.0%} of the time waiting for them; "
            f"{memory_mb:,.0f} MB with {ProcessTree().workers} workers"
        )
        iterator = self._iterator()
        return [state, *(() if iterator is None else _stages(iterator))]


def _stages(iterator: grain.DatasetIterator) -> list[str]:
    """Return a line for each stage; Grain counts those of workers every five seconds.

    The elements that a stage has made, and the next one has not, are in its buffer.
    """
    nodes = {}
    with suppress(RuntimeError):  # Grain adds nodes of workers in a thread of its own.
        nodes = {int(key): node for key, node in get_execution_summary(iterator).nodes.items()}
    takers = {source: node for node in nodes.values() for source in node.inputs}
    lines = [_HEADING] if nodes else []
    for number, node in sorted(nodes.items()):
        made = node.num_produced_elements
        buffered = ""
        if node.is_prefetch and (taken := getattr(takers.get(number), "num_produced_elements", 0)):
            buffered = str(max(0, made - taken))
        each_ms = f"{node.total_processing_time_ns / made / 1e6:.2f}" if made else ""
        lines.append(
            f"{node.wait_time_ratio:>9.1%}  {each_ms:>8}  {made:>9}  {buffered:>8}  "
            f"{shorten(node.name, 70)}"
        )
    return lines
