"""Count work in two processes; counts that differ between them are not reproducible."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Final

from netpipe.device.emulated_names import parse_accelerator
from netpipe.errors import MisuseError
from netpipe.jobs.parent import ProcessEnvironment, Session, collect_results, open_session
from netpipe.jobs.progress import OnProgress
from netpipe.jobs.request import SessionRequest
from netpipe.results.work_profile import WorkProfile, keep_reproducible, parse_work_profile

_HASH_SEEDS: Final = ("0", "1")
_HERE: Final = ProcessEnvironment()


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
    environment: ProcessEnvironment = _HERE,
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
    platforms = {**os.environ, **environment.variables}.get("JAX_PLATFORMS")
    is_on_cpu = platforms == "cpu" or parse_accelerator(request.accelerator) is not None
    groups = [tuple(hash_seeds)] if is_on_cpu else [(seed,) for seed in hash_seeds]
    results = list[Any]()
    for group in groups:
        with ExitStack() as opened:
            sessions = list[Session]()
            for seed in group:
                variables = {**environment.variables, "PYTHONHASHSEED": seed}
                seeded = replace(environment, variables=variables)
                followed = None if sessions or results else progress
                session = open_session(command, request, seeded, followed)
                sessions.append(opened.enter_context(session))
            results += collect_results(sessions)
    return keep_reproducible(list(map(parse_work_profile, results)))
