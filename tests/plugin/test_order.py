"""The order of pipelines in the summary of a run."""

from typing import Any

import pytest

from tests.plugin.project import LINT, Project, line_with

ERROR = {
    "rule": "nested-mp-prefetch", "severity": "error", "nodes": [0], "proof": "",
    "message": "it is nested", "cost": "no batch", "fix": "remove it",
}  # fmt: skip
GRAPH = [{"made_at": "mine.py:3"}]


def lint(*findings: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the lint of a pipeline."""
    return {**LINT, "graph": GRAPH, "findings": list(findings), **more}


def test_an_error_is_a_failure_with_its_line(project: Project) -> None:
    """The message has the rule, the line of code, the cost and the fix."""
    project.has(
        """
        from netpipe.testing import expect_order

        def test_order(netpipe_lint):
            expect_order(netpipe_lint)
        """
    )
    project.lint = lint(ERROR)
    result = project.run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    for value in ("order: nested-mp-prefetch", "at: mine.py:3", "cost: no batch", "fix: remove it"):
        line_with(result, value)
    line_with(result, "order: error: nested-mp-prefetch")
    result.stdout.no_fnmatch_line("nothing was measured*")


def test_what_is_silenced_is_listed(project: Project) -> None:
    """The summary has its reason."""
    project.has("def test_order(netpipe_lint): pass")
    project.lint = lint(silenced=[{**ERROR, "reason": "we know"}])
    line_with(project.run(), "silenced", "nested-mp-prefetch", "we know")
