"""The parent of a duet: starts both sides, orders blocks, and collects their times."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Final, Generic, TypeVar

from netpipe.device.host import this_host
from netpipe.duets.duet_request import BlockSize, CoreUse, DuetRequest
from netpipe.errors import NetpipeError, NoSuchTestError, OutOfTimeError, SessionError
from netpipe.gate.duets import MIN_SLICES, Duet, quiet_slices
from netpipe.gate.metrics import MAX_BUSY_FRACTION
from netpipe.jobs.parent import ProcessEnvironment, Session, open_session
from netpipe.jobs.processes import (
    HostCpu,
    bind_workers_alike,
    busy_elsewhere_fraction,
    read_host_cpu,
)
from netpipe.jobs.progress import OnProgress
from netpipe.jobs.request import SessionRequest
from netpipe.measuring.interleaving import order_of_round

_POLL_S: Final = 0.05
# A duet with fewer slices takes up to twice its time, and one that waits for quiet moments up to
# three times.
_ENOUGH_SLICES: Final = 10
_TIMES_FOR_SLICES: Final = 2
_TIMES_FOR_QUIET: Final = 3
# The sides compete for cores if they use more than this fraction of them while both pull; other
# programs may use the rest.
_CROWDED: Final = 0.5
# Minimum number of batches of each side that must arrive while both sides pull.
_MIN_ARRIVALS: Final = 4
_VARIABLES: Final = {
    # Two processes can share a GPU only if neither takes most of its memory at the start.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    # The highest limits that glibc sets itself, in bytes. With lower ones, some processes return
    # memory after every batch and others of the same code never, which costs page faults.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}

_Block = dict[str, Any]
Request = TypeVar("Request", bound=SessionRequest)


@dataclass(frozen=True)
class Side(Generic[Request]):
    """One side of a duet: its process and its name, which appears in messages."""

    name: str
    command: Sequence[str]
    request: Request
    environment: ProcessEnvironment = field(default_factory=ProcessEnvironment)
    progress: OnProgress | None = None


class RemoteTimer:
    """The parent's connection to the running session of one side."""

    def __init__(self, name: str, session: Session, channel: Connection) -> None:
        self.session = session
        self._name = name
        self._channel = channel

    def send(self, order: tuple[Any, ...]) -> None:
        """Send an order, such as the size of a block to time."""
        with suppress(OSError):  # `receive` reports that the session has ended.
            self._channel.send(tuple(order))

    def receive(self) -> dict[str, Any] | None:
        """Return an answer, or None if there is none yet; raise the error of a failed session."""
        with name_failures(self._name):
            if self.session.is_over():
                raise self._failure()
            try:
                return self._channel.recv() if self._channel.poll(_POLL_S) else None
            except (EOFError, OSError):
                raise self._failure() from None

    def _failure(self) -> NetpipeError:
        """Return the error of a session that has ended or is about to end."""
        try:
            self.session.result(is_early=True)
        except NetpipeError as error:
            return error
        return SessionError("it ended before it was told to")


def receive_all(timers: Sequence[RemoteTimer]) -> list[dict[str, Any]]:
    """Return one answer from each side; poll all sides until every one has answered."""
    received: dict[RemoteTimer, dict[str, Any]] = {}
    while len(received) < len(timers):
        for timer in timers:
            if timer not in received and (answer := timer.receive()) is not None:
                received[timer] = answer
    return [received[timer] for timer in timers]


@contextmanager
def name_failures(name: str) -> Iterator[None]:
    """Add the name of a version to the errors of its session."""
    try:
        yield
    except (NoSuchTestError, OutOfTimeError):
        raise
    except NetpipeError as error:
        raise SessionError(f"the session of {name} failed: {error}") from error


@contextmanager
def open_sides(sides: Sequence[Side[Request]]) -> Iterator[Sequence[RemoteTimer]]:
    """Start the sessions of all sides, and yield their timers; the sessions end with the block."""
    with ExitStack() as opened:
        yield [opened.enter_context(_start(side)) for side in sides]


def run_duet(base: Side[DuetRequest], now: Side[DuetRequest]) -> Duet:
    """Run a duet and return its times; each block is timed beside a block of the other side.

    Raises:
        NoSuchTestError: A version has no such test.
        OutOfTimeError: No time is left.
        SessionError: The session of a side has failed.
    """
    quantity, duet_s = now.request.quantity, now.request.duet_s
    with open_sides((base, now)) as timers:
        descriptions = receive_all(timers)
        if len({description["fingerprint"] for description in descriptions}) > 1:
            return Duet({}, {}, difference="other data or another configuration")
        base_size, size = (BlockSize(*description["size"]) for description in descriptions)
        size = size.fit_to(base_size)
        # An older version gives neither `core_use` nor `epoch_batches`.
        uses = [CoreUse(*each["core_use"]) for each in descriptions if "core_use" in each]
        run_slice: Callable[..., tuple[_Block, _Block]] = take_turns
        if quantity == "load_s_per_batch":
            run_slice = partial(_pull, together=_share_cores_equally(uses))
        slices: list[tuple[_Block, _Block]] = []
        fractions: list[float] = []  # of the host's CPU time that other programs took
        once: list[dict[str, Sequence[float]]] = [{}, {}]
        # After a wait, the buffers of a loader that goes on loading would hold more batches.
        rests = len(uses) == len(descriptions) and all(use.rests for use in uses)
        may_wait = quantity == "step_s" or rests
        for number in _number_slices(timers, duet_s, fractions, may_wait=may_wait):
            cpu = _read_host_cpu(timers)
            before, after = run_slice(timers, size, number)
            if before and after:
                once = [block.pop("once", {}) for block in (before, after)]
                slices.append((before, after))
                fractions.append(busy_elsewhere_fraction(cpu, _read_host_cpu(timers)))
    epochs = [description.get("epoch_batches") for description in descriptions]
    return Duet(
        base=_list_values([before for before, _ in slices]) | once[0],
        now=_list_values([after for _, after in slices]) | once[1],
        shares_cores=descriptions[0]["shares_cores"],
        epoch_batches=min(filter(None, epochs), default=None),
        busy_elsewhere_fraction=tuple(fractions),
    )


def _number_slices(
    timers: Sequence[RemoteTimer], duet_s: float, fractions: Sequence[float], *, may_wait: bool
) -> Iterator[int]:
    """Yield a number for each slice of a duet, until its time is over.

    If only a few slices were quiet by then, the duet is extended, and waits before each slice for a
    quiet moment. Each wait lasts at most as long as a duet.
    """
    started_s = time.monotonic()
    for number in count():
        now_s, slices = time.monotonic(), len(fractions)
        lacks_quiet = may_wait and 0 < len(quiet_slices(fractions)) < MIN_SLICES <= slices
        times = _TIMES_FOR_SLICES if slices < _ENOUGH_SLICES else 1
        ends_s = started_s + duet_s * (_TIMES_FOR_QUIET if lacks_quiet else times)
        if now_s > ends_s:
            return
        is_extended, until_s = now_s > started_s + duet_s, min(ends_s, now_s + duet_s)
        if lacks_quiet and is_extended and not _wait_until_quiet(timers, until_s):
            return
        yield number


def _wait_until_quiet(timers: Sequence[RemoteTimer], until_s: float) -> bool:
    """Wait until other programs use few cores; return whether they do."""
    before = _read_host_cpu(timers)
    while time.monotonic() < until_s:
        for timer in timers:
            timer.receive()  # It waits a moment, and raises if a session has ended.
        now = _read_host_cpu(timers)
        if busy_elsewhere_fraction(before, now) <= MAX_BUSY_FRACTION:
            return True
        before = now
    return False


def _read_host_cpu(timers: Sequence[RemoteTimer]) -> HostCpu:
    return read_host_cpu(time.process_time() + sum(timer.session.cpu_s() for timer in timers))


@contextmanager
def _start(side: Side[Request]) -> Iterator[RemoteTimer]:
    ours, theirs = Pipe()
    with ours, ExitStack() as opened:
        with theirs:
            request = replace(side.request, channel=theirs.fileno())
            variables = {**_VARIABLES, **os.environ, **side.environment.variables}
            environment = replace(side.environment, variables=variables)
            # The kernel may divide the cores among Unix sessions (autogroup). If each side had one,
            # one of them would starve for a tenth of a second at a time.
            session = opened.enter_context(
                open_session(
                    side.command,
                    request,
                    environment,
                    side.progress,
                    [theirs.fileno()],
                    in_own_unix_session=False,
                )
            )
        yield RemoteTimer(side.name, session, ours)


def _share_cores_equally(uses: Sequence[CoreUse]) -> bool:
    """Return whether two loaders can be compared while both pull.

    Once both use up the cores, more workers get a larger share of them, and threads that take turns
    on the GIL lose more time. Loaders that mostly wait do not compete, and one whose buffers are
    never full would go on loading in the other's turn.
    """
    is_alike = len({tuple(use.helpers) for use in uses}) <= 1
    competes = sum(use.cores for use in uses) > _CROWDED * this_host().cores
    return is_alike or not competes or not all(use.rests for use in uses)


def _pull(
    timers: Sequence[RemoteTimer], size: BlockSize, number: int, *, together: bool
) -> tuple[_Block, _Block]:
    """Let both sides pull a block, at the same time or in turn; the one that starts alternates."""
    if together:
        # A loader may have been started again.
        bind_workers_alike(*(timer.session.pid for timer in timers))
        for timer in order_of_round(timers, number):
            timer.send(size)
        base, now = receive_all(timers)
    else:
        base, now = take_turns(timers, size, number)
    if not (base and now):
        return base, now
    stamps_s = [block.pop("stamps_s") for block in (base, now)]
    times_s = [each[size.skipped :] for each in stamps_s]
    if together:
        until_s = min(each[-1] for each in stamps_s)
        if until_s <= max(each[0] for each in stamps_s):
            return {}, {}  # One side waited, or restarted its loader.
        # The sides share the machine only while both pull.
        from_s = max(each[0] for each in times_s)
        both = [[at_s for at_s in each if from_s <= at_s <= until_s] for each in times_s]
        # A very fast side may end before the other one has begun.
        times_s = both if min(map(len, both)) >= _MIN_ARRIVALS else times_s
    # Here, the other version takes the place of the reference loader.
    now["load_cpu_ratio"] /= base["load_cpu_ratio"]
    base["load_cpu_ratio"] = 1.0
    for block, each in zip((base, now), times_s, strict=True):
        block["load_s_per_batch"] = (each[-1] - each[0]) / (len(each) - 1)
    return base, now


def take_turns(
    timers: Sequence[RemoteTimer], order: tuple[Any, ...], number: int
) -> tuple[Any, Any]:
    """Send an order to each side in turn and return the answers; the side that starts alternates.

    The order may be the size of a block, for example, which each side then times.
    """
    answers = dict[RemoteTimer, Any]()
    for timer in order_of_round(timers, number):
        timer.send(order)
        (answers[timer],) = receive_all([timer])
    base, now = (answers[timer] for timer in timers)
    return base, now


def _list_values(blocks: Sequence[_Block]) -> dict[str, Sequence[float]]:
    """Return the values of each metric, one per block."""
    return {name: tuple(block[name] for block in blocks) for name in (blocks or [{}])[0]}
