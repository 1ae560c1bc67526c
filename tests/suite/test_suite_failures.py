"""A session that fails: its message arrives, once."""

from collections.abc import Sequence

import pytest

from netpipe.harness import session
from netpipe.harness.errors import HangError
from netpipe.harness.measurement import Measurement
from netpipe.harness.session import SessionRequest
from tests.suite.project import LOAD_TIME, NO_STALL, Project


def test_a_hanging_loader_is_waited_for_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every test of a subject whose session failed says why, and no second session is started."""
    started: list[Sequence[str]] = []

    def hang(command: Sequence[str], request: SessionRequest) -> Measurement:
        started.append(command)
        raise HangError(f"no batch for {request.batch_limit_s:g} s")

    monkeypatch.setattr(session, "measured", hang)
    project.has(LOAD_TIME + NO_STALL)
    result = project.run()
    assert sum(result.parseoutcomes().get(word, 0) for word in ("failed", "errors")) == 2
    result.stdout.fnmatch_lines(["*no batch for 10 s*", "*no batch for 10 s*"])
    assert len(started) == 1
