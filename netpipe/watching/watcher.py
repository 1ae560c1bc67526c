"""Wraps the batches of a training run, and logs how long the run waits for them.

The training thread only notes times. A thread of this module's own samples whether the device is
idle, closes the windows and writes their lines. Nothing here raises into the training loop.
"""

import json
import os
import random
import socket
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from math import inf
from pathlib import Path
from statistics import median
from threading import Event, Lock, Thread
from typing import Any, Final, NamedTuple

from netpipe.clock import Clock
from netpipe.device.accelerators import peak_flops
from netpipe.device.emulated_names import check_flops
from netpipe.errors import MisuseError
from netpipe.jobs.footprint import read_memory
from netpipe.jobs.processes import ProcessTree
from netpipe.measuring.training.step_runner import (
    compilation_count,
    count_batch,
    first_array,
    is_ready,
)
from netpipe.measuring.training.token_counts import BY_ELEMENTS, name_leaves
from netpipe.results.fields import converter
from netpipe.results.statistics import percentiles, worst_tenth_fraction
from netpipe.verdict.kinds import VerdictKind
from netpipe.watching.window import Figures, Waits, Window, judge, sampled_fraction

# Seconds between two samples, drawn at random so that they do not keep time with the steps.
_SAMPLE_S: Final = (0.03, 0.07)


class _Given(NamedTuple):
    """The times of a batch that was given, and whether its request found the latest step done."""

    at_s: float
    wait_s: float
    work_s: float
    found_done: bool | None


class _Sample(NamedTuple):
    """A moment, and whether the loop then waited for data while the device was idle."""

    at_s: float
    is_idle_wait: bool


class Watcher(Iterator[Any]):
    """The batches of a training run, which are passed on unchanged.

    Attributes and methods of the loader's iterator, such as `get_state`, are those of the watcher.

    Args:
        batches: An iterator or an iterable of batches.
        log: The file that gets a JSON line (`netpipe.training/1`) for each window; None for none.
        window_s: Seconds of a window.
        flops_per_step: FLOPs of a step on all its devices together, for the MFU.

    Raises:
        MisuseError: `window_s` or `flops_per_step` is not a positive number.
    """

    def __init__(
        self,
        batches: Iterable[Any],
        log: Path | str | None = None,
        *,
        window_s: float = 10.0,
        flops_per_step: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not 0 < window_s < inf:
            raise MisuseError(f"window_s must be above 0 seconds, and finite; found {window_s!r}")
        self._flops = None if flops_per_step is None else check_flops(flops_per_step)
        self._batches, self._iterator = batches, iter(batches)
        self._log = None if log is None else Path(log)
        self._window_s, self._clock = window_s, clock or Clock()
        self._given: deque[_Given] = deque()
        self._asked_s: float | None = None
        self._step: Any = None
        self._batch: Any = None
        self._epoch, self._is_begun = 1, False
        self._samples: deque[_Sample] = deque()
        self._taken = 0
        self._since_s = self._clock()
        self._open_s = 0.0
        self._compilations = compilation_count()
        self._compiled = self._compilations()
        self._kind: VerdictKind | None = None
        self._latest: Window | None = None
        self._memory_bytes = 0
        self._lock, self._over = Lock(), Event()
        # The trainer may have seeded Python's own generator.
        self._random = random.Random()
        self._thread = Thread(target=self._run, name="netpipe-watch", daemon=True)

    def __iter__(self) -> Iterator[Any]:
        """Begin the loader again if it has been used, as a loop over the loader itself does."""
        if self._is_begun:
            self._iterator = iter(self._batches)
            self._epoch += self._iterator is not self._batches
        return _Pass(self)

    def __len__(self) -> int:
        """Return the number of batches; raise a TypeError if the loader does not know it."""
        return len(self._batches)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        """Return True, so that a trainer may ask whether it was given batches."""
        return True

    def __next__(self) -> Any:
        if self._over.is_set():
            self._is_begun = True
            return next(self._iterator)
        if not self._is_begun:
            self._begin()
        found_done, worked_s = self._is_step_done(), time.thread_time()
        asked_s = self._asked_s = self._clock()
        try:
            batch = next(self._iterator)
        except StopIteration:
            self._end_epoch(asked_s)
            raise
        finally:
            self._asked_s = None
        now_s = self._clock()
        work_s = time.thread_time() - worked_s
        self._given.append(_Given(now_s, now_s - asked_s, work_s, found_done))
        self._batch = batch
        return batch

    def _begin(self) -> None:
        self._is_begun, self._since_s = True, self._clock()
        try:
            self._thread.start()
        except RuntimeError as error:  # there are too many threads
            self._end(error)

    def _end_epoch(self, asked_s: float) -> None:
        """Close the window before a request that found no batch left.

        Workers may take a second to end. Training waits for that only if another epoch follows,
        so it counts in the next window.
        """
        self._asked_s, now_s = None, self._clock()
        self.close_window(asked_s)
        self._open_s = self._since_s - now_s

    def __getattr__(self, name: str) -> Any:
        if "_iterator" not in vars(self):
            raise AttributeError(name)
        return getattr(self._iterator, name)

    def on_step_end(self, aux: Any = None, *others: Any, **named: Any) -> None:
        """Note what a step returned; its loss is kept until the next call, and not waited for.

        As a trainer's hook, it may get other things too, such as the batch. A `loss` by name then
        belongs to the step, and nothing else.
        """
        step = None
        with suppress(Exception):
            if others or named:
                mappings = (each for each in (aux, *others, named) if isinstance(each, Mapping))
                aux = next((each["loss"] for each in mappings if "loss" in each), None)
            loss = aux.get("loss") if isinstance(aux, Mapping) else aux
            step = loss if hasattr(loss, "is_ready") else first_array(aux)
        self._step = step

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Stop watching, as the hook of a trainer."""
        self.stop()

    def figures(self) -> dict[str, float]:
        """Return the numbers of the latest window under flat names, for any metric writer."""
        if self._latest is None:
            return {}
        window = converter().unstructure(self._latest)
        named = name_leaves(window | window.pop("figures"), "netpipe")
        return {n.replace(".", "/"): float(v) for n, v in named if isinstance(v, int | float)}

    def _is_step_done(self) -> bool | None:
        step = self._step
        with suppress(Exception):
            return None if step is None else is_ready(step)
        return None

    def _run(self) -> None:
        looked_s, read_s = self._clock(), -inf
        try:
            while not self._over.wait(pause_s := self._random.uniform(*_SAMPLE_S)):
                self.sample(looked_s + pause_s)
                looked_s = self._clock()
                is_due = looked_s - self._since_s >= self._window_s
                if is_due or looked_s - read_s >= self._window_s:
                    # The loop's thread, which closes a window at the end of an epoch, must not
                    # wait while the pages of all processes are counted.
                    read_s, self._memory_bytes = looked_s, read_memory()[0]
                if is_due:
                    self.close_window()
        except Exception as error:  # noqa: BLE001  # training must go on
            self._end(error)

    def sample(self, at_s: float | None = None) -> None:
        """Note whether the device was idle while the loop waited, at a moment; now by default.

        A thread that computes in Python, such as a loop that loads its own batches, lets this one
        look only when it is done. So the moment counts, not when this thread came to look.
        """
        is_done = self._is_step_done()
        if is_done is not None:
            at_s = self._clock() if at_s is None else at_s
            self._samples.append(_Sample(at_s, self._is_idle_wait(at_s, is_done)))

    def _is_idle_wait(self, at_s: float, is_done: bool) -> bool:
        asked_s = self._asked_s
        if asked_s is not None and asked_s <= at_s:
            return is_done
        with suppress(IndexError):  # The window may be closed meanwhile.
            for number in range(1, len(self._given) + 1):
                given = self._given[-number]
                if given.at_s - given.wait_s <= at_s:
                    return at_s < given.at_s and bool(is_done or given.found_done)
        return False

    def close_window(self, at_s: float | None = None) -> None:
        """End the window, by default now, and write its line.

        A failure ends the log, not the training. A window without a batch or a request, as during
        an evaluation, has no line.
        """
        try:
            with self._lock:
                now_s = self._clock() if at_s is None else max(at_s, self._since_s)
                if self._given or self._asked_s is not None:
                    self._latest = self._make_window(now_s)
                    self.report(self._latest)
                else:
                    self._open_s = 0.0
                self._since_s = now_s
                self._take_samples(now_s)
        except Exception as error:  # noqa: BLE001  # training must go on
            self._end(error)

    def _take_samples(self, before_s: float) -> list[_Sample]:
        samples = []
        while self._samples and self._samples[0].at_s < before_s:
            samples.append(self._samples.popleft())
        return samples

    def stop(self) -> None:
        """Write the last window and stop watching; the batches go on."""
        if not self._over.is_set():
            self._over.set()
            self.close_window()

    def _end(self, error: Exception) -> None:
        self._over.set()
        _warn(f"watching has ended: {type(error).__name__}: {error}")

    def _make_window(self, now_s: float) -> Window:
        asked_s = self._asked_s
        given = [self._given.popleft() for _ in range(len(self._given))]
        seconds = max(now_s - self._since_s, 1e-9)
        figures = self._figures_of(given, seconds, now_s, asked_s)
        counted, per_s = count_batch(self._batch), len(given) / seconds
        tokens = None if counted is None or counted.rule == BY_ELEMENTS else counted.tokens
        window = Window(
            ended=datetime.now(UTC).isoformat(timespec="milliseconds"),
            host=socket.gethostname(),
            pid=os.getpid(),
            batches_before=self._taken,
            epoch=self._epoch,
            figures=figures,
            verdict=judge(figures, self._taken),
            examples_per_s=None if counted is None else counted.examples * per_s,
            tokens_per_s=None if tokens is None else tokens * per_s,
            mfu=self._compute_mfu(per_s),
            memory_bytes=self._memory_bytes or read_memory()[0],
            workers=ProcessTree().workers,
        )
        self._taken += len(given)
        self._compiled = self._compilations()
        return window

    def _compute_mfu(self, steps_per_s: float) -> float | None:
        devices = getattr(getattr(self._step, "sharding", None), "device_set", ())
        peak = sum(peak_flops(each.device_kind) or 0.0 for each in devices)
        return self._flops * steps_per_s / peak if self._flops and peak else None

    def _figures_of(
        self, given: list[_Given], seconds: float, now_s: float, asked_s: float | None
    ) -> Figures:
        waits_s = [each.wait_s for each in given]
        worked_s = sum(each.work_s for each in given)
        # A wait that began in an earlier window counts there as far as it lies there.
        open_s = 0.0 if asked_s is None else now_s - asked_s
        waited_s = sum(waits_s) + open_s - self._open_s
        self._open_s = open_s
        gaps_s = [later.at_s - each.at_s for each, later in pairwise(given)]
        found = [each.found_done for each in given if each.found_done is not None]
        spread_s = percentiles(waits_s) if waits_s else ()
        samples = self._take_samples(now_s)
        return Figures(
            seconds=seconds,
            batches=len(given),
            waiting_fraction=min(1.0, max(0.0, waited_s / seconds)),
            wait_s=Waits(spread_s[50], spread_s[99], spread_s[100]) if spread_s else None,
            step_s=median(gaps_s) if gaps_s else None,
            exposed_fraction=sampled_fraction(
                sum(each.is_idle_wait for each in samples), len(samples)
            ),
            synced_fraction=sum(found) / len(found) if found else None,
            worst_tenth_fraction=worst_tenth_fraction(waits_s) if waits_s else 0.0,
            own_work_fraction=min(1.0, worked_s / max(1e-9, sum(waits_s))),
            compilations=self._compilations() - self._compiled,
        )

    def report(self, window: Window) -> None:
        """Write the line of a window, and tell when the verdict changes."""
        verdict = window.verdict
        if self._log is not None:
            self._write(self._log, json.dumps(window.to_document()) + "\n")
        if verdict.kind in (self._kind, VerdictKind.INCONCLUSIVE):
            return
        if self._kind is not None or verdict.kind is not VerdictKind.HEALTHY:
            batch = window.batches_before
            advice = f"; {verdict.next}" * (verdict.kind is not VerdictKind.HEALTHY)
            _warn(f"{verdict.kind} from batch {batch} on: {verdict.message}{advice}")
        self._kind = verdict.kind

    def _write(self, log: Path, line: str) -> None:
        try:
            if not log.parent.exists():
                log.parent.mkdir(parents=True, exist_ok=True)
            # One write for each line, so that a killed run leaves whole lines.
            with log.open("ab", buffering=0) as file:
                file.write(line.encode())
        except OSError as error:
            self._log = None
            _warn(f"{log} gets no more lines: {error.strerror}")


class _Pass(Iterator[Any]):
    """A loop over a watcher, with its attributes; `iter` of it does not begin the loader again."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def __next__(self) -> Any:
        return self._watcher.__next__()  # one function call less than `next`

    def __len__(self) -> int:
        return len(self._watcher)

    def __bool__(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        if name == "_watcher":
            raise AttributeError(name)
        return getattr(self._watcher, name)


def _warn(message: str) -> None:
    with suppress(Exception):
        sys.stderr.write(f"netpipe: {message}\n")
        sys.stderr.flush()
