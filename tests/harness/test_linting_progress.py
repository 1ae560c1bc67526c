"""A session that lints says what it tries, and of how many seconds."""

import json
from pathlib import Path

import grain
import pytest

from netpipe.harness.linting import linted_loader
from netpipe.harness.session import SessionRequest, progress_file

PROVES = "trying on elements what the structure leaves open"
TRIES = "measuring what the proposals give"


def loader() -> grain.MapDataset:
    """Make a pipeline that leaves nothing to try."""
    return grain.MapDataset.range(8).batch(2)


@pytest.mark.parametrize(
    ("proves", "tries", "doing", "of_s"),
    [(True, False, PROVES, 7.0), (False, True, TRIES, 7.0), (True, True, TRIES, 14.0)],
)
def test_what_takes_time_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proves: bool, tries: bool, doing: str,
    of_s: float,
) -> None:  # fmt: skip
    """Proofs and trials have the budget for themselves each; the last of them is said last."""
    monkeypatch.setattr("netpipe.harness.linting._proven", lambda *given: given[-1])
    monkeypatch.setattr("netpipe.harness.linting._tried", lambda *_: ())
    request = SessionRequest(
        "lint", str(tmp_path / "result.json"), budget_s=7.0, proves=proves, tries=tries
    )
    linted_loader(request, loader)
    said = json.loads(progress_file(request).read_text())
    assert (said["doing"], said["of_s"]) == (doing, of_s)


def test_reading_alone_is_not_worth_a_word(tmp_path: Path) -> None:
    """It takes no time."""
    request = SessionRequest("lint", str(tmp_path / "result.json"))
    linted_loader(request, loader)
    assert not progress_file(request).exists()
