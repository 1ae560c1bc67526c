"""Runs the jobs of sessions in the process of the test, without starting another one."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from netpipe.jobs import parent
from netpipe.jobs.registry import import_factories, run_job
from netpipe.jobs.request import SessionRequest, read_result


@pytest.fixture
def sessions_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Run sessions in this process; at the end, forget the files of their targets."""
    stems: set[str] = set()

    def run_session(_: object, request: SessionRequest, *__: object, **___: object) -> Any:
        files = [target.where for target in request.targets.values()]
        stems.update(Path(file).stem for file in files if file.endswith(".py"))
        asked = replace(request, result=str(tmp_path / "result.json"))
        run_job(asked, lambda: import_factories(asked))
        return read_result(Path(asked.result), asked.result_key)

    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(parent, "run_session", run_session)
    yield run_session
    for stem in stems:
        sys.modules.pop(stem, None)
