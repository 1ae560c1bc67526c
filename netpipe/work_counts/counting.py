"""Counting work in two processes: what differs between them is not reproducible."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from netpipe.results.work_profile import WorkProfile, keep_reproducible, parse_work_profile
from netpipe.session.parent import ProcessEnvironment, run_session
from netpipe.session.progress import OnProgress
from netpipe.work_counts.request import WorkRequest

_HASH_SEEDS: Final = ("0", "1")
_HERE: Final = ProcessEnvironment()


def count_work(
    command: Sequence[str],
    request: WorkRequest,
    environment: ProcessEnvironment = _HERE,
    progress: OnProgress | None = None,
    hash_seeds: Sequence[str] = _HASH_SEEDS,
) -> WorkProfile:
    """Count work by a session's command, in a process for each value of PYTHONHASHSEED.

    Raises:
        MisuseError: The loader or the step is not what it must be.
        SessionError: A process crashed, hung or ran out of time.
    """
    profiles = []
    for seed in hash_seeds:
        variables = {**environment.variables, "PYTHONHASHSEED": seed}
        seeded = replace(environment, variables=variables)
        profiles.append(parse_work_profile(run_session(command, request, seeded, progress)))
    return keep_reproducible(profiles)
