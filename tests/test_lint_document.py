"""docs/lint.md shows what `netpipe lint` prints."""

from dataclasses import replace

import pytest
from rich.console import Console

from netpipe.device.host import this_host
from netpipe.grain_access.source_lines import record_source_lines
from netpipe.jobs.targets import Target, resolve
from netpipe.linting import linter
from netpipe.linting.rules.finding import Reads
from netpipe.reporting.picture.terminal import TextPicture
from tests.root_process import ROOT

DOCUMENT = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> linter.LintReport:
    """The findings about the example, on a host with two cores as when the document was written."""
    monkeypatch.setattr(linter, "this_host", lambda: replace(this_host(), cores=2))
    monkeypatch.chdir(ROOT / "examples" / "order")
    monkeypatch.syspath_prepend(".")
    with record_source_lines() as recording:
        dataset = resolve(Target.parse("input_pipeline.py:batches"))()
    # As --try measured it.
    reads = Reads(evidence="reading was measured to wait for 0% of its time")
    return linter.lint(dataset, recording=recording, reads=reads)


def test_the_document_shows_the_picture(report: linter.LintReport) -> None:
    """The document has the picture of the example, line by line."""
    console = Console(width=118, color_system=None)
    with console.capture() as captured:
        console.print(TextPicture(report))
    picture = "\n".join(line.rstrip() for line in captured.get().splitlines()).strip()
    assert picture
    assert picture in DOCUMENT


def test_the_document_shows_the_findings(report: linter.LintReport) -> None:
    """The document has message, cost and fix of each finding, wherever its lines are broken."""
    words = " ".join(DOCUMENT.split())
    assert report.findings
    for finding in report.findings:
        text = (
            f"{finding.severity} {finding.rule}: {finding.message} "
            f"cost: {finding.cost} fix: {finding.fix}"
        )
        assert text in words
