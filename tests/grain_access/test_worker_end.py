"""Grain's workers, ended without a deadlock."""

from multiprocessing import active_children

import grain

from netpipe.grain_access.worker_start import let_grain_start_workers


def _text(index: int) -> str:
    return str(index % 10) * 300_000  # A pipe holds 64 KiB.


def test_workers_end_although_nobody_reads_their_last_batches() -> None:
    """Every worker ends by itself; Grain would kill one that still waits for a reader."""
    let_grain_start_workers()
    numbers = grain.MapDataset.range(10_000).map(_text).to_iter_dataset()
    iterator, before = (
        iter(numbers.mp_prefetch(grain.MultiprocessingOptions(2, 4))),
        active_children(),
    )
    for _ in range(20):
        next(iterator)
    workers = [each for each in active_children() if each not in before]
    iterator.close()
    assert [worker.exitcode for worker in workers] == [0, 0]
