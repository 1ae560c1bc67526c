"""Restored training continues with the right batches, with any number of workers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from netpipe.resuming.checking import ResumeReport
from netpipe.testing import expect_exact_resume
from netpipe.workload.config import Config
from netpipe.workload.resume import ResumableBatches


@pytest.fixture
def netpipe_loader(data_directory: Path, config: Config) -> Callable[..., ResumableBatches]:
    """Return a factory of this repository's training batches that takes a number of workers."""

    def make(workers: int = 0) -> ResumableBatches:
        return ResumableBatches(data_directory, replace(config.pipeline, workers=workers))

    return make


def test_training_goes_on_exactly(netpipe_resume: ResumeReport) -> None:
    """States saved with two workers give the same batches with none, one, two and four."""
    assert {state.workers for state in netpipe_resume.restored} == {0, 1, 2, 4}
    expect_exact_resume(netpipe_resume)
