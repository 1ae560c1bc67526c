"""Count work in two processes; counts that differ between them are not reproducible."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any, Final

from netpipe.errors import MisuseError
from netpipe.jobs.parent import HERE, ProcessEnvironment, Session, is_on_cpu, open_session
from netpipe.jobs.progress import OnProgress
from netpipe.jobs.request import SessionRequest
from netpipe.results.fields import parse
from netpipe.results.work_profile import WorkProfile, keep_reproducible

_HASH_SEEDS: Final = ("0", "1")


@dataclass(frozen=True)
class WorkRequest(SessionRequest):
    """The settings of one count; `batches` are counted after the warm-up."""

    kind: str = "work"
    batches: int = 16

    def __post_init__(self) -> None:
        """Check the values that a user can set."""
        super().__post_init__()
        if self.batches < 1:
            raise MisuseError(f"the number of batches must be above 0; found {self.batches}")


def count_work(
    command: Sequence[str],
    request: WorkRequest,
    environment: ProcessEnvironment = HERE,
    progress: OnProgress | None = None,
    hash_seeds: Sequence[str] = _HASH_SEEDS,
) -> WorkProfile:
    """Count work with a session's command, in one process for each value of PYTHONHASHSEED.

    The processes run at the same time, because counts do not depend on load. If jax may use an
    accelerator, they run one after the other, because each may need most of the device's memory.

    Raises:
        MisuseError: The loader or the step is unsuitable.
        SessionError: A process crashed, hung or ran out of time.
    """

    def count(seed: str) -> AbstractContextManager[Session]:
        followed = progress if seed == hash_seeds[0] else None
        return open_session(command, request, environment.with_hash_seed(seed), followed)

    alone, results = [[seed] for seed in hash_seeds], list[Any]()
    for group in [hash_seeds] if is_on_cpu(request, environment) else alone:
        with ExitStack() as opened:
            sessions = [opened.enter_context(count(seed)) for seed in group]
            results += [session.result() for session in sessions]
    return keep_reproducible([parse(result, WorkProfile, "session") for result in results])
