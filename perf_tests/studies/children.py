"""Child processes that print one JSON document."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from netpipe.errors import NetpipeError

_ENDING_S: Final = 10.0  # for a session to end its own processes after SIGTERM


class ChildError(NetpipeError):
    """A process that did not end in time, or printed no document."""


def run_for_json(
    arguments: Sequence[str],
    variables: Mapping[str, str],
    limit_s: float,
    folder: Path | None = None,
) -> Mapping[str, Any]:
    """Run this Python in a folder with extra variables; return the JSON that it prints.

    Raises:
        ChildError: It took longer, or printed something else.
    """
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "JAX_PLATFORMS": "cpu", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as child:
        try:
            printed, log = child.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise ChildError(f"it took more than {limit_s:g} s") from None
        finally:
            end_group(child)
    try:
        document: Mapping[str, Any] = json.loads(printed)
    except ValueError:
        # A stack may follow the message of a command of netpipe.
        _, is_netpipes, message = f"\n{log.strip()}".rpartition("\nnetpipe: ")
        said = message if is_netpipes else (log.strip().splitlines() or ["nothing"])[-1]
        raise ChildError(f"ended with code {child.returncode}: {said}") from None
    return document


def end_group(child: "subprocess.Popen[str]") -> None:
    """End the process group of a process that still runs."""
    if child.returncode is not None:
        return
    child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.wait(_ENDING_S)
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
