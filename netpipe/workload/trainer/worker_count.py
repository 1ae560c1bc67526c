"""Chooses a host's number of workers, and prints a line about its share of the loading."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from netpipe.device.host import this_host
from netpipe.jobs.footprint import read_pss
from netpipe.results.measurement import Host
from netpipe.workload.config import PipelineConfig
from netpipe.workload.pipeline import build, build_evaluation
from netpipe.workload.sources.kept_rows import KeptRows
from netpipe.workload.sources.probe_rows import RowSource
from netpipe.workload.trainer.network_config import NetworkConfig

# Workers send tokens as int16.
_BYTES_PER_TOKEN = 2


def choose_workers(
    config: NetworkConfig, data: Path, pipeline: PipelineConfig, source: RowSource | None = None
) -> PipelineConfig:
    """Return a host's pipeline with its number of workers; print a line about its loading."""
    count, split = pipeline.shard_count, pipeline.split
    host = f"netpipe, host {pipeline.shard_index + 1} of {count}, {split}"
    setting = "grain_worker_count" if split == "train" else "grain_worker_count_eval"
    if getattr(config, setting) == -1:
        # The memory of a process that does nothing else is that of a worker.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            worker_bytes = process.submit(_measure_worker, data, pipeline, source).result()
        workers, why = count_workers(worker_bytes, config.grain_ram_budget_mb, this_host())
        pipeline = replace(pipeline, workers=workers)
        sys.stderr.write(f"{host}: {setting} -1 becomes {workers} ({why})\n")
    rows = source if isinstance(source, KeptRows) else "none"
    sys.stderr.write(
        f"{host}: {pipeline.batch_size} of {pipeline.batch_size * count} sequences of a batch; "
        f"workers: {pipeline.workers}, batches ahead: {pipeline.worker_buffer_batches}; "
        f"rows in memory: {rows}\n"
    )
    return pipeline


def _measure_worker(data: Path, config: PipelineConfig, source: RowSource | None) -> int:
    """Return the bytes of this process after it makes a batch, plus those of a worker's buffer."""
    alone = replace(config, workers=0)
    dataset = build(data, alone, source=source) if source else build_evaluation(data, alone)
    batch_tokens: int = next(iter(dataset))["inputs"].size
    buffer_tokens = config.worker_buffer_batches * batch_tokens
    return read_pss(os.getpid())[1] + _BYTES_PER_TOKEN * buffer_tokens


def count_workers(worker_bytes: int, budget_mb: int, host: Host) -> tuple[int, str]:
    """Return the number of workers that a host's cores and memory allow, and the reasons."""
    room_mb = min(budget_mb, host.memory_bytes >> 20)
    fit = (room_mb << 20) // worker_bytes
    memory = f"{room_mb} MiB hold {fit} workers of {worker_bytes / 2**20:.0f} MiB each"
    way_out = "" if fit else "; raise grain_ram_budget_mb, or the training process makes batches"
    workers = min(fit, max(1, host.cores - 1))
    return workers, f"usable cores: {host.cores}, one for training; {memory}{way_out}"
