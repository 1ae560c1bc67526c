"""Sessions on targets: their command, and what its process does with the targets that it names."""

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from netpipe.jobs.registry import announce_import, require_request, run_job
from netpipe.jobs.request import SessionRequest
from netpipe.jobs.targets import resolve
from netpipe.measuring.measure_request import Factories

_Request = TypeVar("_Request", bound=SessionRequest)


def targets_command(
    module: str, loader: str, step: str | None = None, loop: str | None = None
) -> list[str]:
    """Return the command of a session in which a module calls `run_on_targets`."""
    command = [sys.executable, "-P", "-m", module, "--loader", loader]
    command += ["--step", step] if step else []
    return command + (["--loop", loop] if loop else [])


def run_on_targets(
    request_type: type[_Request], job: Callable[[_Request, Factories, ExitStack], dict[str, Any]]
) -> None:
    """Run this process's session, a job as in `run_job`, on the targets that its command names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--loader", required=True)
    parser.add_argument("--step")
    parser.add_argument("--loop")
    named = {name: word for name, word in vars(parser.parse_args()).items() if word is not None}
    request = require_request(parser, request_type)

    def run(closing: ExitStack) -> dict[str, Any]:
        announce_import(request, named["loader"])
        started_s = time.monotonic()
        made: dict[str, Any] = {name: resolve(target) for name, target in named.items()}
        return job(request, Factories(**made, import_s=time.monotonic() - started_s), closing)

    run_job(request, run)
