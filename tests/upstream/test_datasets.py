"""Hugging Face's streams: a second resume, and a shuffle buffer of one shard."""

from pathlib import Path
from typing import Any

import pytest

from netpipe.errors import PipelineElementsError
from netpipe.jobs.parent import CHILD_COMMAND
from netpipe.jobs.targets import name_targets
from netpipe.resuming.checking import ResumeRequest, check_resume
from netpipe.testing import expect_exact_resume, expect_well_shuffled

datasets = pytest.importorskip("datasets")
streams: Any = pytest.importorskip("tests.upstream.streams")

RELEASES_WITH_8308 = ("5.0.0",)
"""Releases whose states stay at the start after a resume: huggingface/datasets#8308."""


def test_a_second_resume() -> None:
    """The state that a restored run saves leads back to the start of the stream."""
    target = f"{Path(__file__).with_name('streams.py')}:Batches"
    report = check_resume(CHILD_COMMAND, ResumeRequest(targets=name_targets(loader=target)))
    if datasets.__version__ in RELEASES_WITH_8308:
        with pytest.raises(PipelineElementsError, match="restore: repeated: batch 0 came in place"):
            expect_exact_resume(report)
    else:
        expect_exact_resume(report)


def test_a_shuffle_buffer_of_one_shard() -> None:
    """Neighbours in the source stay together; a buffer of the whole stream is uniform."""
    one_shard = streams.ELEMENTS // streams.SHARDS
    with pytest.raises(PipelineElementsError, match=r"source_neighbours is 0\.9"):
        expect_well_shuffled(
            streams.shuffled_epochs(one_shard), streams.ELEMENTS, lambda batch: batch["id"]
        )
    every = streams.shuffled_epochs(streams.ELEMENTS)
    expect_well_shuffled(every, streams.ELEMENTS, lambda batch: batch["id"])
