"""The watchdog, which ends a session that hangs, crashes or takes too long, and reports why."""

import faulthandler
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import NamedTuple

from netpipe.clock import Clock
from netpipe.jobs.cleanup import end_this_session
from netpipe.jobs.failure import format_failure, format_frames
from netpipe.jobs.heartbeat import Watch
from netpipe.jobs.processes import describe_activity, describe_crash, list_workers
from netpipe.jobs.progress import ProgressWriter
from netpipe.jobs.request import (
    OVERTIME_S,
    SessionRequest,
    error_document,
    partial_result_file,
    progress_file,
    stacks_file,
    write_result,
)

# A loader that survives the loss of a worker gives a batch within these limits, the second of them
# for a loader that is starting. Other loaders get time to report the loss themselves.
_CRASH_GRACE_S = 0.5
_START_CRASH_GRACE_S = 5.0
# If the watchdog's thread is later than this, another thread holds the GIL.
_GIL_GRACE_S = 3.0
_POLL_S = 0.2
_INNERMOST_FRAMES = 3
_START_OPTION = "--start-limit, in pytest --netpipe-start-limit"
_BATCH_OPTION = "--batch-limit, in pytest --netpipe-batch-limit"


class Alarm(NamedTuple):
    """The kind and the message of an error that must end the session."""

    kind: str
    message: str


class _Wait(NamedTuple):
    """A thread's wait for a batch.

    Attributes:
        start: The phase of the loader's start; "" once the loader is running.
        others: The workers that existed before the start.
    """

    since_s: float
    thread: int
    start: str = ""
    others: frozenset[int] = frozenset()


class _Stage(NamedTuple):
    name: str
    since_s: float
    limit_s: float
    limit_means: str
    way_out: str


class Watchdog(Watch):
    """A context manager that watches a session from its own thread.

    The time before `begin_rounds`, not counting the loader's start, is limited to
    `request.start_up_s + extra_s` seconds.
    """

    def __init__(
        self, request: SessionRequest, clock: Clock | None = None, extra_s: float = 0.0
    ) -> None:
        self._request = request
        self._clock = clock or Clock()
        self._main = threading.get_ident()
        self._waits: dict[int, _Wait] = {}
        self._batches = 0
        self._workers: tuple[int, ...] = ()
        self._crashes_s: dict[int, float] = {}
        self._deaths: list[str] = []
        self._of_s = 0.0
        self._over = threading.Event()
        self._progress = ProgressWriter(progress_file(request), self._clock)
        # pytest captures standard error, which is lost with the process.
        self._stacks = stacks_file(request).open("w", encoding="utf-8")
        self._thread = threading.Thread(target=self._run, name="netpipe-watchdog", daemon=True)
        way_out = f"start limit, above {request.start_up_s:g} s: {_START_OPTION}"
        limit_s = request.start_up_s + extra_s
        self._stage = _Stage("start-up", self._clock(), limit_s, "its limit", way_out)

    def __enter__(self) -> "Watchdog":
        self._hook = threading.excepthook
        threading.excepthook = self._note_death
        self._end_without_gil()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()
        self._stacks.close()
        stacks_file(self._request).unlink()
        threading.excepthook = self._hook

    def note_wait(self, since_s: float | None, *, starts: bool = False) -> None:
        """Note that this thread waits for a batch, or has received it."""
        thread = threading.get_ident()
        before = self._waits.get(thread)
        if since_s is None:
            if before is not None and before.start:
                # A start has its own limit, so the stage's limit does not include it.
                start_s = self._clock() - before.since_s
                self._stage = self._stage._replace(since_s=self._stage.since_s + start_s)
                self._end_without_gil()
            self._batches += 1
            self._waits.pop(thread, None)
        elif not starts:
            self._waits[thread] = _Wait(since_s, thread)
        elif before is not None and before.start:
            # Making a loader and waiting for its first batch count as one start.
            self._waits[thread] = before._replace(start="waiting for the first batch")
        else:
            start = "starting the loader again" if self._batches else "making the loader"
            others = frozenset(list_workers())
            self._waits[thread] = _Wait(since_s, thread, start, others)
            self._end_without_gil(self._request.start_limit_s)

    def note_workers(self, worker_pids: Sequence[int]) -> None:
        """Note the loader's workers."""
        self._workers = tuple(worker_pids)

    def begin_rounds(self, budget_s: float = 0.0) -> None:
        """Start the time limit of the rounds."""
        budget_s = max(budget_s, self._request.budget_s)
        overtime_s = max(OVERTIME_S, 0.5 * budget_s)
        means = f"the budget of {budget_s:g} s and {overtime_s:g} s more"
        self._stage = _Stage("rounds", self._clock(), budget_s + overtime_s, means, "budget")
        self._end_without_gil()

    def enter_phase(self, phase: str, of_s: float = 0.0, detail: str = "") -> None:
        """Write the progress for the parent."""
        self._of_s = of_s
        self._progress.enter_phase(phase, of_s, detail)

    def alarm(self) -> Alarm | None:
        """Return the reason to end the session now; None if there is none."""
        now_s, request = self._clock(), self._request
        waits = sorted(self._waits.copy().values(), key=lambda wait: wait.since_s)
        for wait in waits:
            limit_s = request.start_limit_s if wait.start else request.batch_limit_s
            if now_s - wait.since_s > limit_s:
                return self._hang(wait, limit_s)
            if crash := self._find_crash(wait, now_s):
                found = f"its worker process {crash}"
                return Alarm("failed", f"the loader failed after {self._batches} batches: {found}")
        is_starting = any(wait.start for wait in waits)
        if not is_starting and now_s - self._stage.since_s > self._stage.limit_s:
            return self._overdue(waits[0] if waits else None)
        return None

    def _find_crash(self, wait: _Wait, now_s: float) -> str:
        """Return the pid and the end of a worker whose loss the loader has not survived, or ""."""
        if wait.start:
            for pid, crash in list_workers().items():
                if pid not in wait.others and crash:
                    since_s = self._crashes_s.setdefault(pid, now_s)
                    if now_s - since_s > _START_CRASH_GRACE_S:
                        return f"{pid} was ended {crash}"
        elif now_s - wait.since_s > _CRASH_GRACE_S:
            for pid in self._workers:
                if crash := describe_crash(pid):
                    return f"{pid} was ended {crash}"
        return ""

    def _end_without_gil(self, start_s: float = 0.0) -> None:
        """Make faulthandler, which needs no GIL, end the process if the watchdog cannot get it."""
        left_s = self._stage.since_s + self._stage.limit_s - self._clock()
        limit_s = max(0.0, left_s) + start_s + _GIL_GRACE_S
        faulthandler.dump_traceback_later(limit_s, exit=True, file=self._stacks)

    def _note_death(self, death: threading.ExceptHookArgs) -> None:
        if death.exc_value is not None and death.thread is not None:
            self._deaths.append(
                f"its thread {death.thread.name} ended: {format_failure(death.exc_value)}"
            )
        self._hook(death)

    def _run(self) -> None:
        while not self._over.wait(_POLL_S):
            if alarm := self.alarm():
                if not partial_result_file(self._request).exists():
                    write_result(self._request, error_document(*alarm))
                end_this_session(self._request)
            self._show_start()

    def _show_start(self) -> None:
        for wait in self._waits.copy().values():
            if wait.start:
                waited_s, limit_s = self._clock() - wait.since_s, self._request.start_limit_s
                detail = f"{waited_s:.0f} of at most {limit_s:g} s"
                self._progress.enter_phase(wait.start, self._of_s, detail)

    def _hang(self, wait: _Wait, limit_s: float) -> Alarm:
        message = (
            f"the loader gave no batch for {limit_s:g} s after {self._batches} batches: it hangs, "
            "or an exception ended one of its own threads or processes"
        )
        if wait.start:
            message += f". If it only starts slowly, give a larger start limit: {_START_OPTION}"
        else:
            message += f". If a batch only takes long, give a larger batch limit: {_BATCH_OPTION}"
        return Alarm("hang", "\n".join([message, *self._loader_lines(), _location(wait.thread)]))

    def _overdue(self, wait: _Wait | None) -> Alarm:
        stage, lines = self._stage, self._loader_lines() if wait else []
        message = (
            f"the {stage.name} did not end within {stage.limit_s:g} s, {stage.limit_means}, after "
            f"{self._batches} batches{', and waits for the loader' if wait else ''}. If it is only "
            f"slow, give a larger {stage.way_out}"
        )
        location = _location(wait.thread if wait else self._main)
        return Alarm("hang", "\n".join([message, *lines, location]))

    def _loader_lines(self) -> list[str]:
        workers = [f"worker process {pid}: {describe_activity(pid)}" for pid in self._workers]
        return [*workers, *self._deaths]


def _location(thread: int) -> str:
    """Return the stack of a thread: the user's frames, then the innermost ones."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001  # the documented function
    if frame is None:
        return "the waiting thread is gone"
    return f"it is at\n{format_frames(traceback.extract_stack(frame), _INNERMOST_FRAMES)}"
