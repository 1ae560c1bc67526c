"""What the README shows of `netpipe lint` is what it says."""

from dataclasses import replace

import pytest
from rich.console import Console

from netpipe.device.host import this_host
from netpipe.linting import linter
from netpipe.linting.graph.source_lines import record_source_lines
from netpipe.linting.picture.terminal import TextPicture
from netpipe.session.targets import resolve
from tests.root_process import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> linter.LintReport:
    """What is found in the README's example, as on the two cores that it was run on."""
    monkeypatch.setattr(linter, "this_host", lambda: replace(this_host(), cores=2))
    monkeypatch.chdir(ROOT / "examples" / "order")
    monkeypatch.syspath_prepend(".")
    with record_source_lines() as recording:
        dataset = resolve("input_pipeline.py:batches")()
    return linter.lint(dataset, recording=recording)


def test_the_picture_is_the_readmes(report: linter.LintReport) -> None:
    """Line by line."""
    console = Console(width=118, color_system=None)
    with console.capture() as captured:
        console.print(TextPicture(report, 118))
    picture = "\n".join(line.rstrip() for line in captured.get().splitlines()).strip()
    assert picture
    assert picture in README


def test_the_findings_are_the_readmes(report: linter.LintReport) -> None:
    """Message, cost and mend of each, however the lines are broken."""
    words = " ".join(README.split())
    assert report.findings
    for one in report.findings:
        told = f"{one.severity} {one.rule}: {one.message} cost: {one.cost} fix: {one.fix}"
        assert told in words
