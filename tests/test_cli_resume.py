"""`netpipe resume`: its output and its exit codes."""

from collections.abc import Sequence

import pytest

from netpipe.jobs.parent import CHILD_COMMAND
from netpipe.resuming import checking
from netpipe.resuming.checking import Restored, ResumeReport, ResumeRequest
from tests.command import Netpipe, document
from tests.resuming import resume_targets

TARGET = "loaders.py:loader"
EXACT = Restored(1, None, "", 30, 0.001, 0.5)
SKIPPED = Restored(6, 0, "skipped: batch 7 came in place of batch 6", 1200, 0.001, 0.5)
FAILED = Restored(6, 4, "failed: ValueError: other workers\n  File x", 1200, 0.001, None)
UNDECIDED = ResumeReport(12, True, "it gives other batches each time")


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[ResumeReport]:
    """Return the report of the next check."""
    found: list[ResumeReport] = []

    def check(command: Sequence[str], request: ResumeRequest, progress: object) -> ResumeReport:
        assert command == CHILD_COMMAND
        assert str(request.targets["loader"]) == TARGET
        assert request.batches == 32
        assert progress is None or callable(progress)
        return found.pop()

    monkeypatch.setattr(checking, "check_resume", check)
    return found


@pytest.mark.parametrize(
    ("report", "exit_code", "line"),
    [
        (
            ResumeReport(12, True, "", [EXACT]),
            0,
            "from batch 1 on: exact (state of 30 bytes, saved in 1 ms, first batch after 500 ms)",
        ),
        (ResumeReport(12, True, "", [EXACT, SKIPPED]), 1, "with 0 workers: skipped: batch 7 came"),
        (
            ResumeReport(12, True, "", [EXACT, FAILED]),
            1,
            "failed: ValueError: other workers (state of 1,200 bytes, saved in 1 ms)",
        ),
        (UNDECIDED, 3, "undecided: it gives other batches each time"),
    ],
)
def test_the_report_decides_the_exit_code(
    netpipe: Netpipe, reports: list[ResumeReport], report: ResumeReport, exit_code: int, line: str
) -> None:
    """0 is exact, 1 differs, and 3 is undecided; both forms of the output say so."""
    reports += [report, report]
    result = netpipe("resume", TARGET)
    assert result.exit_code == exit_code
    assert line in result.stdout
    result = netpipe("resume", TARGET, "--json")
    assert result.exit_code == exit_code
    found = document(result, "resume.1.json")
    assert found["loader"] == TARGET
    assert found["undecided"] == report.undecided
    assert [each["difference"] for each in found["restored"]] == [
        each.difference for each in report.restored
    ]


def test_a_loader_without_a_state_is_misuse(netpipe: Netpipe) -> None:
    """A real session refuses it, and the error names a way out."""
    result = netpipe("resume", f"{resume_targets.__file__}:without_state")
    assert result.exit_code == 2
    assert "or an iterator of your own with these methods" in result.output
