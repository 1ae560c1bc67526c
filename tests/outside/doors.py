"""The only place of these tests that names modules within netpipe which may move."""

import json
from pathlib import Path
from typing import Any

import pytest

from netpipe.diagnosis import diagnose
from netpipe.page.rendering import read_document
from netpipe.resuming import checking
from netpipe.session import parent
from netpipe.verdict.report import parse_printed
from netpipe.work_counts import counting
from tests.diagnosis import examples
from tests.outside.golden import ROOT
from tests.work_profiles import PROFILE


def schemas() -> dict[str, Any]:
    """Return every JSON schema that netpipe ships, by the name that others refer to it by."""
    paths = sorted((ROOT / "netpipe" / "schemas").glob("*.json"))
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def replay_sessions(monkeypatch: pytest.MonkeyPatch, recorded: Path) -> None:
    """Let every command find a recorded measurement, or a made-up result, instead of measuring."""
    measured = parse_printed(read_document(recorded), recorded)
    diagnosed = examples.diagnosis(measurement=measured)
    resumed = checking.ResumeReport(32, ended=False, undecided="unstable")
    monkeypatch.setattr(parent, "run_measurement", lambda *_, **__: measured)
    monkeypatch.setattr(parent, "run_session", lambda *_, **__: dict(examples.LINT))
    monkeypatch.setattr(diagnose, "run_diagnosis", lambda *_, **__: diagnosed)
    monkeypatch.setattr(counting, "count_work", lambda *_, **__: PROFILE)
    monkeypatch.setattr(checking, "check_resume", lambda *_, **__: resumed)
