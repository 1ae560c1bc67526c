"""What debug mode and the drawing tell about a training's pipeline."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import grain._src.python.dataset.stats as grain_stats
import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from netpipe.config import PipelineConfig
from netpipe.data.resume import ResumableBatches
from netpipe.trainer.iterators import make_network_train_iterator
from netpipe.trainer.network_config import NetworkConfig
from netpipe.trainer.state_log import StateLog

BATCHES = 5


@pytest.fixture
def batches(many: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ResumableBatches]:
    """Batches made in this process, whose stages Grain times."""
    monkeypatch.setattr(grain_stats, "_REPORTING_PERIOD_SEC", 0.01)
    config = PipelineConfig(sequence_length=64, batch_size=8, workers=0)
    with closing(ResumableBatches(many, config, is_timed=True)) as opened:
        yield opened


def test_the_state_has_every_stage(batches: ResumableBatches) -> None:
    """Batches and the wait for them since the last time, memory, and each stage's figures."""
    log = StateLog("host 1 of 2", 3600, lambda: batches.iterator)
    assert len(log.lines()) == 1
    for _ in range(BATCHES):
        with log.waiting():
            next(batches)
    deadline_s = time.monotonic() + 60
    while len(lines := log.lines()) < 2 or " pack " not in "".join(lines):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    log.close()
    heading, *stages = lines[1:]
    assert heading.split() == ["of", "wait", "ms", "each", "elements", "buffered", "stage"]
    packing = next(line for line in stages if " pack " in line).split()
    share, each_ms, elements = packing[:3]
    assert float(share.rstrip("%")) > 0
    assert float(each_ms) > 0
    assert int(elements) >= BATCHES


def test_the_state_counts_since_the_last_time(batches: ResumableBatches) -> None:
    """Batches are counted once."""
    log = StateLog("host 1 of 2", 3600, lambda: None)
    for _ in range(BATCHES):
        with log.waiting():
            next(batches)
    assert log.lines()[0].startswith(f"netpipe, host 1 of 2: {BATCHES} batches in ")
    assert log.lines()[0].startswith("netpipe, host 1 of 2: 0 batches in ")
    assert log.lines()[0].endswith(" MB with 0 workers")
    log.close()


def test_debug_mode_tells_the_state_until_the_end(
    many: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every period, on standard error; the drawing shows the pipeline without a finding."""
    drawings = tmp_path / "deep" / "drawings"
    config = NetworkConfig(
        str(many), max_target_length=64, global_batch_size_to_load=8, grain_worker_count=0,
        grain_debug_mode=True, grain_debug_period_s=1, grain_visualization_dir=str(drawings),
    )  # fmt: skip
    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    with closing(make_network_train_iterator(config, mesh, [0])) as batches:
        next(batches)
        told, deadline_s = "", time.monotonic() + 60
        while "netpipe, host 1 of 1: 1 batches in" not in told:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
            told += capfd.readouterr().err
    drawing = (drawings / "network_train.svg").read_text()
    assert "pack" in drawing
    assert "Nothing found" in drawing


def test_nothing_is_told_or_timed_without_debug_mode(
    many: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Timing every stage costs time."""
    config = NetworkConfig(str(many), global_batch_size_to_load=8, grain_worker_count=0)
    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    with closing(make_network_train_iterator(config, mesh, [0])) as batches:
        next(batches)
        assert batches._log is None
        assert "ExecutionStats" not in type(batches._batches.iterator._stats).__name__  # type: ignore[union-attr]
    assert capfd.readouterr().err.count("netpipe") == 1  # the line at the start
