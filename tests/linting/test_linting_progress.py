"""The phases that a session of lint announces, with their seconds."""

from contextlib import ExitStack
from pathlib import Path

import grain
import pytest

from netpipe.grain_access.dataset_variants import Variant
from netpipe.jobs.progress import ProgressWriter
from netpipe.jobs.targets import Factories
from netpipe.linting import lint_job
from netpipe.linting.experiments.variant_comparison import (
    UNCHANGED,
    ElementBlock,
    VariantComparison,
)
from netpipe.linting.lint_job import lint_loader
from netpipe.linting.lint_request import LintRequest
from netpipe.measuring.interleaving import Interleaved

BUILDS = "building the pipeline"
PROVES = "testing on elements where the structure does not decide"
WAITS = "waiting for the first batches of the pipeline as it is"


def loader() -> grain.IterDataset:
    """Make a pipeline that leaves nothing to prove, and a prefetch to try."""
    return grain.MapDataset.range(8).batch(2).to_iter_dataset(grain.ReadOptions(0, 0))


@pytest.mark.parametrize(
    ("proves", "tries", "expected"),
    [
        (False, False, [(BUILDS, 0)]),
        (True, False, [(BUILDS, 0), (PROVES, 7.0)]),
        (False, True, [(BUILDS, 0), (WAITS, 7.0)]),
        (True, True, [(BUILDS, 0), (PROVES, 14.0), (WAITS, 14.0)]),
    ],
)
def test_slow_phases_are_announced(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    proves: bool,
    tries: bool,
    expected: list[tuple[str, float]],
) -> None:
    """The factory, the proofs, and the first batches; --prove and --try have a budget each."""
    announced: list[tuple[str, float]] = []
    monkeypatch.setattr(
        ProgressWriter, "enter_phase", lambda _, what, of_s=0.0: announced.append((what, of_s))
    )
    # On a busy machine reading may seem to wait, and then fewer fixes are tried.
    monkeypatch.setattr(lint_job, "measure_reads", lambda *_: None)
    failed = Interleaved[Variant, ElementBlock](failures={UNCHANGED: "it was not run"})
    monkeypatch.setattr(VariantComparison, "_interleave", lambda *_: failed)
    request = LintRequest(
        result=str(tmp_path / "result.json"), budget_s=7.0, proves=proves, tries=tries
    )
    lint_loader(request, Factories(loader), ExitStack())
    assert [phase for phase in announced if not phase[0].startswith("measuring")] == expected
