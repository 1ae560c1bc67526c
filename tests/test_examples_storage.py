"""The example of docs/storage.md: slow from a bucket, and fixed."""

from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netpipe.grain_access.dataset_variants import open_iterator
from netpipe.jobs.targets import Factories, Target, resolve
from netpipe.linting.lint_job import lint_loader
from netpipe.linting.lint_request import LintRequest
from tests.root_process import ROOT

DOCUMENT = (ROOT / "docs" / "storage.md").read_text(encoding="utf-8")
EXAMPLE = str(ROOT / "examples" / "storage" / "documents.py")


def example(name: str) -> Any:
    """Return a loader of the example."""
    return resolve(Target.parse(f"{EXAMPLE}:{name}"))


def test_the_fix_changes_no_batch() -> None:
    """Both loaders give the same tokens, filled with 0 or cut off."""
    taken = []
    for name in ("batches", "fixed"):
        with open_iterator(example(name)()) as batches:
            taken.append(list(islice(batches, 3)))
    for one, other in zip(*taken, strict=True):
        assert np.array_equal(one, other)
        assert (one.shape, one.dtype) == ((16, 4096), np.int32)
    assert 0 < np.mean(taken[0][0] == 0) < 0.5


@pytest.mark.parametrize(
    ("name", "rules"), [("batches", ["too-few-reads-in-flight"]), ("fixed", [])]
)
def test_the_document_shows_what_lint_finds(name: str, rules: list[str], tmp_path: Path) -> None:
    """The document shows the findings; the fixed loader has none."""
    request = LintRequest(result=str(tmp_path / "result.json"))
    (document,) = lint_loader(request, Factories(example(name)), ExitStack()).values()
    findings = document["findings"]
    assert [finding["rule"] for finding in findings] == rules
    words = " ".join(DOCUMENT.split())
    for found in findings:
        text = f"{found['severity']} {found['rule']}: {found['message']} cost: {found['cost']}"
        assert f"{text} fix: {found['fix']}" in words
