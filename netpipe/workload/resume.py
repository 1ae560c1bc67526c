"""Batches whose position can be saved, and restored in another process or on other hosts.

A batch is a pure function of the seed and its index, so only the index needs to be saved. The rest
of the state shows whether the batches would still be the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import grain
from grain._src.python.dataset.dataset import get_execution_summary

from netpipe.errors import InputError
from netpipe.files.text_files import quote
from netpipe.measuring.loader_puller import close_with_timeout
from netpipe.workload.config import PipelineConfig
from netpipe.workload.pipeline import Position, build, first_position, open_rows
from netpipe.workload.tokens.batches import Batch

SCHEMA: Final = "netpipe.position/1"
# Grain may take 25 s to stop a worker, and waits forever for a thread that hangs.
CLOSE_LIMIT_S: Final = 60.0
_WAYS_OUT: Final = {
    "data": "Train on the data that the state was saved with, or start over",
    "global_batch_size": "Keep batch size times hosts the same, or start over",
}


class ResumableBatches(Iterator[Batch]):
    """The batches of this host, from the first one or from the state that was last set.

    `get_state` counts only batches that `next` returned; those in buffers are made again. The state
    is the same on every host, and another number of hosts can resume from it. With `is_timed`,
    Grain measures how long each stage takes. `config.workers` may change until the first batch.
    """

    def __init__(self, data: Path, config: PipelineConfig, *, is_timed: bool = False) -> None:
        self._data = data
        self._is_timed = is_timed
        self.config = config
        self._position = first_position(config)
        self.source = open_rows(data, config)
        # The first difference is reported, and the data differ between splits too.
        self._identity = {
            "split": config.split,
            "data": self.source.fingerprint,
            "seed": config.seed,
            "sequence_length": config.sequence_length,
            "packing": config.packing,
            "epochs": config.epochs,
            "global_batch_size": config.batch_size * config.shard_count,
        }
        self.iterator: grain.DatasetIterator | None = None

    def __next__(self) -> Batch:
        if self.iterator is None:
            iterator = iter(self.dataset())
            if self._is_timed:
                # Otherwise Grain would not count the stages of a single worker.
                get_execution_summary(iterator)
            self.iterator = iterator
        batch: Batch = next(self.iterator)
        self._position = replace(self._position, batch=self._position.batch + 1)
        return batch

    def dataset(self) -> grain.IterDataset:
        """Return a dataset of the batches from the current position on."""
        dataset = build(self._data, self.config, self._position, self.source)
        if self._is_timed:
            timing = grain.experimental.ExecutionTrackingMode.STAGE_TIMING
            options = grain.experimental.DatasetOptions(execution_tracking_mode=timing)
            dataset = grain.experimental.WithOptionsIterDataset(dataset, options)
        return dataset

    def get_state(self) -> dict[str, Any]:
        """Return the position as plain JSON values that take less than a kilobyte."""
        return {"schema": SCHEMA, **vars(self._position), **self._identity}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, which may have been saved with other workers or on other hosts.

        Raises:
            InputError: `state` is invalid, or the batches after it would differ. The position is
                then unchanged.
        """
        expected = self.get_state()
        if not isinstance(state, Mapping) or state.keys() != expected.keys():
            keys = sorted(map(str, state)) if isinstance(state, Mapping) else state
            raise InputError("state", "keys", f"be {sorted(expected)}", quote(keys))
        for name in ("schema", *self._identity):
            if state[name] != expected[name]:
                constraint = f"be {quote(expected[name])}, as configured"
                way_out = _WAYS_OUT.get(name, "Configure it as it was, or start over")
                raise InputError("state", name, constraint, quote(state[name]), way_out)
        for name, minimum in (("batch", 0), ("block_sequences", 1)):
            if type(value := state[name]) is not int or value < minimum:
                raise InputError("state", name, f"be a number of at least {minimum}", quote(value))
        position = Position(state["batch"], state["block_sequences"])
        small, large = sorted((position.block_sequences, self.config.batch_size))
        if large % small or self.config.batch_size * self.config.shard_count % large:
            size = f"this host's batch size, {self.config.batch_size}"
            constraint = f"divide {size}, or be a multiple of it that divides all hosts' batches"
            way_out = "Resume on another number of hosts"
            found = position.block_sequences
            raise InputError("state", "block_sequences", constraint, found, way_out)
        self.close()
        self._position = position

    def close(self) -> None:
        """Stop the workers; the next batch starts new ones."""
        if self.iterator is not None:
            close_with_timeout(self.iterator.close, CLOSE_LIMIT_S)
            self.iterator = None
