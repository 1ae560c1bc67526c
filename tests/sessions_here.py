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
    """Run sessions in this process; at the end, forget the modules of the test's own files."""
    before = {*sys.modules}

    def run_session(_: object, request: SessionRequest, *__: object, **___: object) -> Any:
        asked = replace(request, result=str(tmp_path / "result.json"))
        run_job(asked, lambda: import_factories(asked))
        return read_result(Path(asked.result))

    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(parent, "run_session", run_session)
    yield run_session
    temporary = str(tmp_path.parents[1])
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(temporary):
            del sys.modules[name]
