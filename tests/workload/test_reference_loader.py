"""The plain reference path as a loader."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from netpipe.workload.config import PipelineConfig
from netpipe.workload.pipeline import build
from netpipe.workload.preparation.synthetic import generate
from tests.workload import reference_loader
from tests.workload.reference_loader import reference_batches


def test_its_batches_are_those_of_the_unpacked_pipeline(prepared: Path) -> None:
    """Every array of the first batches is equal, until well into the second epoch."""
    config = PipelineConfig(seed=3, sequence_length=256, batch_size=8, packing=False, workers=0)
    ours = iter(build(prepared, config))
    try:
        for theirs in islice(reference_batches(prepared, 256, 8, seed=3), 16):
            expected = next(ours)
            assert theirs.keys() == expected.keys()
            for key, value in theirs.items():
                assert value.dtype == np.int32
                np.testing.assert_array_equal(value, expected[key])
    finally:
        ours.close()


def test_the_target_reads_the_default_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`loader` gives 32 sequences of 1024 tokens of the user's data, as the pipeline does."""
    monkeypatch.setenv("NETPIPE_DATA", str(tmp_path / "data"))
    generate(tmp_path / "data", probes=30)
    config = PipelineConfig(sequence_length=1024, batch_size=32, packing=False, workers=0)
    ours = iter(build(tmp_path / "data", config))
    try:
        np.testing.assert_array_equal(
            next(reference_loader.loader())["inputs"], next(ours)["inputs"]
        )
    finally:
        ours.close()
