"""Checks, in fresh processes, whether a loader continues exactly from each of its states."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Annotated, Any, Final

from netpipe.errors import HarnessError
from netpipe.files.temporary_folders import temporary_folder
from netpipe.jobs.parent import HERE, ProcessEnvironment, Session, is_on_cpu, open_session
from netpipe.jobs.progress import OnProgress
from netpipe.jobs.request import SessionRequest
from netpipe.results.fields import Amount, Count, Document, Must, PositiveCount
from netpipe.results.units import format_count, format_seconds

_CHAINED_WORKERS: Final = (0, 1, 4, 2)
# A pause lets buffers fill, as while training computes. It lasts this many batches, up to a limit.
_FILLED_BATCHES: Final = 3
_MAX_PAUSE_S: Final = 10.0
_CHANGED: Final = "changed: the loader changed the state that it had returned; return a copy"
_Difference = Annotated[
    str,
    Must(pattern="^($|(skipped|repeated|reordered|altered|changed|failed): |ended (early|late), )"),
]


@dataclass(frozen=True)
class ResumeRequest(SessionRequest):
    """The settings of one run of a loader."""

    kind: str = "resume"
    batches: int = 32  #: The offset to stop at, if the loader does not end earlier.
    states: str = ""  #: The folder with a file for each state.
    saved: Sequence[int] = ()  #: The offsets at which to save a state, in batches.
    #: The offset of the state to begin with; None: the run begins without a state.
    restored: int | None = None
    #: Seconds to wait for full buffers before a state is saved or restored; None: no wait.
    pause_s: float | None = None
    workers: int = 2  #: Passed to the factory if it has a parameter of this name.


@dataclass(frozen=True)
class Restored:
    """A state after `offset` batches, and the run that began with this state."""

    offset: Count  #: Number of batches before the state.
    workers: Count | None  #: None: the target takes no number of workers.
    #: How the batches after the state differ from those of the uninterrupted run, which are
    #: numbered from 0; empty if they do not differ.
    difference: _Difference
    state_bytes: PositiveCount  #: Size of the state's pickle.
    save_s: Amount  #: Seconds to get the state.
    #: Seconds from making the loader to its first batch, without the pause; None: no batch.
    first_batch_s: Amount | None
    restores: Count = 0  #: Number of restores in the chain before the state was saved.

    def __str__(self) -> str:
        how = "" if self.workers is None else f" with {format_count(self.workers, 'worker')}"
        how += f", after {format_count(self.restores, 'restore')}" if self.restores else ""
        result = self.difference.partition("\n")[0] or "exact"
        costs = f"state of {self.state_bytes:,} bytes, saved in {format_seconds(self.save_s)}"
        if self.first_batch_s is not None:
            costs += f", first batch after {format_seconds(self.first_batch_s)}"
        return f"from batch {self.offset} on{how}: {result} ({costs})"


@dataclass(frozen=True)
class ResumeReport(Document):
    """Whether a loader continues exactly from its states; `netpipe resume --json` prints it."""

    SCHEMA = "netpipe.resume/1"

    batches: Count  #: Number of batches in the uninterrupted run.
    ended: bool  #: Whether the loader ended in that run.
    undecided: str  #: Why no state was restored; empty if one was.
    restored: Sequence[Restored] = ()
    loader: str = ""  #: The loader's target.

    @property
    def differs(self) -> bool:
        """Whether the batches after any state differ."""
        return any(state.difference for state in self.restored)

    def __str__(self) -> str:
        return "\n".join(map(str, self.restored)) or f"undecided: {self.undecided}"


def check_resume(
    command: Sequence[str],
    request: ResumeRequest,
    progress: OnProgress | None = None,
    environment: ProcessEnvironment = HERE,
) -> ResumeReport:
    """Run a loader twice without interruption, then from its states.

    The second run pauses before it saves each state. The middle state is restored after a pause. In
    a chain, each restored run saves the state for the next one; one of them saves it before its
    first batch. Each has another number of workers; if batches then differ, it is repeated with the
    usual number.

    Raises:
        MisuseError: The loader has no state, or one that cannot be pickled.
        SessionError: An uninterrupted run crashed, hung or ran out of time.
    """
    # Elsewhere, each process may need most of the accelerator's memory.
    may_overlap = is_on_cpu(request, environment)
    ready: tuple[Session, Connection] | None = None
    # Processes to start ahead: one that saves, one from the middle, those of the chain.
    ahead = iter(range(2 + len(_CHAINED_WORKERS)))

    def start(seed: str = "1") -> tuple[Session, Connection]:
        ours, theirs = Pipe()
        waiting.enter_context(ours)
        with theirs:
            asked = replace(request, states=str(folder), channel=theirs.fileno())
            place, inherited = environment.with_hash_seed(seed), [theirs.fileno()]
            opened = open_session(command, asked, place, progress, inherited)
            return waiting.enter_context(opened), ours

    def run(**settings: Any) -> dict[str, Any]:
        nonlocal ready
        previous = ending.pop_all()
        if not may_overlap:
            previous.close()
        with previous:
            session, channel = ready or start()
            ending.push(waiting.pop_all())
            session.restart_limit()
            with suppress(OSError):  # The session has ended, which `result` reports.
                channel.send(settings)
            ready = start() if may_overlap and next(ahead, None) is not None else None
            result: dict[str, Any] = session.result(is_early=True)
            ending.callback(session.result)  # The process may end by itself.
        return result

    def restore(offset: int, restores: int = 0, **settings: Any) -> Restored:
        size, save_s, is_live = saves[str(offset)]
        try:
            found = run(restored=offset, **settings)
            difference = find_difference(expected, found["digests"], offset)
        except HarnessError as error:
            found, difference = {}, f"failed: {error}"
        difference = difference or _CHANGED * is_live
        saves.update(found.get("saves", {}))
        named = settings.get("workers", request.workers) if takes_workers else None
        first_s = found.get("first_batch_s")
        return Restored(offset, named, difference, size, save_s, first_s, restores)

    with temporary_folder("resume") as folder, ExitStack() as ending, ExitStack() as waiting:
        ready = start(seed="0")
        first = run()
        expected, ended, takes_workers = first["digests"], first["ended"], first["takes_workers"]
        count = len(expected)
        if len(set(expected)) < 2 and not (ended and expected):
            what = "the second of two shards" if first.get("is_sharded") else "it"
            why = f"{what} gives no batch, or all are equal, so a wrong position would not be seen"
            return ResumeReport(count, ended, why)
        # If batches come in chunks, at least one of these offsets lies within a chunk.
        wanted = 1, count // 2 | 1, count - 1 if ended else 3 * count // 4 | 1
        low, middle, high = (max(0, min(offset, count - 1)) for offset in wanted)
        pause_s = min(_FILLED_BATCHES * first["s_per_batch"], _MAX_PAUSE_S)
        saving = run(saved=sorted({0, low, middle, high}), pause_s=pause_s)
        if difference := find_difference(expected, saving["digests"]):
            why = f"it gives other batches each time, even without interruption: {difference}"
            return ResumeReport(count, ended, why)
        saves = saving["saves"]
        restored = [restore(middle, pause_s=pause_s)]
        chain = zip(pairwise((0, low, low, high, request.batches)), _CHAINED_WORKERS, strict=True)
        for restores, ((offset, following), other) in enumerate(chain):
            tried = dict.fromkeys((other, request.workers) if takes_workers else (request.workers,))
            file, cost = folder / str(offset), saves[str(offset)]
            state = file.read_bytes() if len(tried) > 1 else b""
            for attempt, workers in enumerate(tried):
                if attempt:  # The failed run may have saved this state anew.
                    file.write_bytes(state)
                    saves[str(offset)] = cost
                restored.append(restore(offset, restores, saved=(following,), workers=workers))
                if not restored[-1].difference:
                    break
            else:
                break
    restored.sort(key=lambda state: state.offset)
    return ResumeReport(count, ended, "", restored)


def find_difference(expected: Sequence[str], found: Sequence[str], offset: int = 0) -> str:
    """Describe how the digests after an offset differ from the expected ones; "" if they do not."""
    rest = expected[offset:]
    pairs = enumerate(zip_longest(rest, found), offset)
    batch = next((number for number, (one, other) in pairs if one != other), None)
    if batch is None:
        return ""
    if batch in (offset + len(rest), offset + len(found)):
        return f"ended {'late' if len(found) > len(rest) else 'early'}, at batch {batch}"
    came = found[batch - offset]
    known = [number for number, digest in enumerate(expected) if digest == came]
    if not known:
        return f"altered: batch {batch} is not in the uninterrupted run"
    instead = min(known, key=lambda number: abs(number - batch))
    moved = "skipped" if instead > batch else "repeated"
    kind = "reordered" if sorted(rest) == sorted(found) else moved
    return f"{kind}: batch {instead} came in place of batch {batch}"
