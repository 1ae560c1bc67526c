"""Iterators over global batches on a mesh of many hosts, modelled on MaxText's own."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final

import grain
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from netpipe.errors import HangError, InputError, LoaderFailedError, NetpipeError, describe_error
from netpipe.files.whole_file import writable_folder, write_whole
from netpipe.jobs.bounded_calls import call_in_thread
from netpipe.jobs.processes import list_workers
from netpipe.linting.linter import lint
from netpipe.measuring.loader_puller import close_with_timeout
from netpipe.reporting.picture.drawing import draw_svg
from netpipe.workload.pipeline import build_evaluation
from netpipe.workload.resume import CLOSE_LIMIT_S, ResumableBatches
from netpipe.workload.tokens.batches import Batch
from netpipe.workload.trainer.debug_log import DebugLog
from netpipe.workload.trainer.network_config import NetworkConfig, take_network_config
from netpipe.workload.trainer.worker_count import choose_workers

_POLL_S: Final = 1.0
# Grain itself checks every second whether its workers are running, and raises an error if not.
_CRASH_POLLS: Final = 4
_WAY_OUT: Final = "Start the training again from its last state"

GlobalBatch = dict[str, jax.Array]
"""The arrays of a `Batch`, int32 (global batch size, sequence length), split over the mesh."""


def make_network_train_iterator(
    config: object, mesh: Mesh, process_indices: Sequence[int], process: int | None = None
) -> "TrainIterator":
    """Return an iterator over training batches; this process loads its part of each batch.

    Args:
        config: A `NetworkConfig`, or an object with attributes of the same names.
        mesh: The devices over which a batch is split.
        process_indices: The indices of the processes that load data, in any order.
        process: The index of this process; by default `jax.process_index()`.
    """
    taken = take_network_config(config)
    sharding, (index, count, devices) = _split(taken, mesh, process_indices, process)
    data, pipeline = taken.for_host(index, count, devices, evaluates=False)
    batches = ResumableBatches(data, pipeline, is_timed=taken.grain_debug_mode)
    batches.config = choose_workers(taken, data, pipeline, batches.source)
    if taken.grain_visualization_dir and index == 0:
        _draw(batches.dataset(), Path(taken.grain_visualization_dir), batches.config.workers)
    log = None
    if taken.grain_debug_mode:
        host, period_s = f"host {index + 1} of {count}", taken.grain_debug_period_s
        log = partial(DebugLog, host=host, period_s=period_s, iterator=lambda: batches.iterator)
    return TrainIterator(batches, sharding, count, taken.network_batch_limit_s, log)


def make_network_eval_iterator(
    config: object, mesh: Mesh, process_indices: Sequence[int], process: int | None = None
) -> "EvalIterator":
    """Return an iterator over evaluation batches, which `iter` restarts; arguments as for training.

    Each context occurs once, and all processes have the same number of batches. Padding, whose
    `targets_segmentation` is 0, fills the last batches.
    """
    taken = take_network_config(config)
    sharding, (index, count, devices) = _split(taken, mesh, process_indices, process)
    data, pipeline = taken.for_host(index, count, devices, evaluates=True)
    dataset = build_evaluation(data, choose_workers(taken, data, pipeline))
    return EvalIterator(dataset, sharding, count, taken.network_batch_limit_s)


def _draw(dataset: grain.IterDataset, folder: Path, workers: int) -> None:
    silences = {"map-after-mp-prefetch": "see `netpipe.workload.pipeline`"} if workers else {}
    drawing = draw_svg(lint(dataset, silences=silences))
    setting = "grain_visualization_dir"
    write_whole(writable_folder(folder, setting) / "network_train.svg", drawing, setting)


def _split(
    config: NetworkConfig, mesh: Mesh, process_indices: Sequence[int], process: int | None
) -> tuple[NamedSharding, tuple[int, int, int]]:
    """Return the sharding of batches, and the first three arguments of `for_host`."""
    axes = config.data_sharding
    if unknown := set(axes).difference(mesh.axis_names):
        constraint = f"be axes of the mesh: {', '.join(mesh.axis_names)}"
        raise InputError("config", "data_sharding", constraint, ", ".join(sorted(unknown)))
    here = jax.process_index() if process is None else process
    ordered = sorted(set(process_indices))
    if here not in ordered:
        raise InputError("process_indices", "process", f"be one of {ordered}", here)
    devices = prod(mesh.shape[axis] for axis in axes)
    return NamedSharding(mesh, PartitionSpec(axes)), (ordered.index(here), len(ordered), devices)


def _to_global(batch: Batch, sharding: NamedSharding, hosts: int) -> GlobalBatch:
    return {
        name: jax.make_array_from_process_local_data(
            sharding, array, (hosts * array.shape[0], array.shape[1])
        )
        for name, array in batch.items()
    }


class TrainIterator(Iterator[GlobalBatch]):
    """Yields training batches, and keeps the position after the last one."""

    def __init__(
        self,
        batches: ResumableBatches,
        sharding: NamedSharding,
        hosts: int,
        limit_s: float,
        log: Callable[[Iterator[Batch]], DebugLog] | None = None,
    ) -> None:
        self._batches = batches
        self._sharding = sharding
        self._hosts = hosts
        awaited = AwaitedBatches(batches, limit_s)
        self._awaited: Iterator[Batch] = log(awaited) if log else awaited
        # A batch that arrives after the limit is not counted, because training did not get it.
        self._state = batches.get_state()

    def __next__(self) -> GlobalBatch:
        batch = next(self._awaited)
        self._state = self._batches.get_state()
        return _to_global(batch, self._sharding, self._hosts)

    def get_state(self) -> dict[str, Any]:
        """Return the position, which is the same in every process; see `ResumableBatches`."""
        return self._state.copy()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a position; see `ResumableBatches`."""
        self._batches.set_state(state)
        self._state = self._batches.get_state()

    @property
    def dataloader(self) -> grain.IterDataset:
        """The batches of this host, under the name that MaxText's iterators use for it."""
        return self._batches.dataset()

    def close(self) -> None:
        """Stop the workers."""
        if isinstance(self._awaited, DebugLog):
            self._awaited.stop()
        self._batches.close()


class EvalIterator(Iterator[GlobalBatch]):
    """Yields the batches of an evaluation."""

    def __init__(
        self, dataset: grain.IterDataset, sharding: NamedSharding, hosts: int, limit_s: float
    ) -> None:
        self._dataset = dataset
        self._sharding = sharding
        self._hosts = hosts
        self._limit_s = limit_s
        self._iterator: grain.DatasetIterator | None = None
        self._awaited: Iterator[Batch] = iter(())

    def __iter__(self) -> "EvalIterator":
        self.reset()
        return self

    def __next__(self) -> GlobalBatch:
        if self._iterator is None:
            self._iterator = iter(self._dataset)
            self._awaited = AwaitedBatches(self._iterator, self._limit_s)
        return _to_global(next(self._awaited), self._sharding, self._hosts)

    def reset(self) -> None:
        """Stop the workers; the next batch will be the first one again."""
        if self._iterator is not None:
            close_with_timeout(self._iterator.close, CLOSE_LIMIT_S)
            self._iterator = None


class AwaitedBatches(Iterator[Batch]):
    """Yields the batches of a loader; waits at most `limit_s` for each, less if a worker crashed.

    Grain would wait forever for a worker that was killed while it sent a batch, and all hosts
    would wait with it. After an error, `next` raises that error again, since the thread that called
    the loader may still take a batch.
    """

    def __init__(self, batches: Iterator[Batch], limit_s: float) -> None:
        self._batches = batches
        self._limit_s = limit_s
        # Grain starts its workers with the first batch, so these are not the loader's.
        self._others = list_workers()
        self._failure: NetpipeError | None = None

    def __next__(self) -> Batch:
        """Return the next batch.

        Raises:
            LoaderFailedError: A worker process crashed, or an error ended the loader.
            HangError: No batch came within the limit.
        """
        if self._failure is not None:
            raise self._failure
        try:
            return self._wait()
        except NetpipeError as error:
            self._failure = error
            raise

    def _wait(self) -> Batch:
        began_s = time.monotonic()
        batch = call_in_thread(lambda: next(self._batches))
        crash_polls = 0
        while not wait([batch], _POLL_S).done:
            crashes = [
                f"worker process {pid} was ended {crash}"
                for pid, crash in list_workers().items()
                if crash and pid not in self._others
            ]
            crash_polls += bool(crashes)
            if crash_polls >= _CRASH_POLLS:
                raise LoaderFailedError(f"{crashes[0]}. {_WAY_OUT}")
            if time.monotonic() - began_s > self._limit_s:
                limit = f"{self._limit_s:g} s, the limit network_batch_limit_s"
                raise HangError(f"no batch within {limit}. {_WAY_OUT}")
        try:
            return batch.result()
        except (NetpipeError, StopIteration):
            raise
        except Exception as error:
            failure = describe_error(error).rstrip(".")
            raise LoaderFailedError(f"{failure}. {_WAY_OUT}") from error
