"""Random pipelines: Grain stages that wait or compute, in workers and threads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any, Final, Literal

import grain
import numpy as np

from netpipe.storage import stand_in
from perf_tests.studies.faults.parts.batches import COLUMNS, Array, Batch, collate, row
from perf_tests.studies.faults.parts.delays import compute, compute_unlocked, wait

Stage = Literal["read", "decode", "augment", "stack"]
STAGES: Final[tuple[Stage, ...]] = ("read", "decode", "augment", "stack")

_WORDS: Final[Mapping[str, Stage]] = {
    "Source": "read",
    "Decode": "decode",
    "Augment": "augment",
    "Batch": "stack",
}
_ROWS_IN_ALL: Final = 100_000_000
_SPENDS: Final = {"waits": wait, "computes": compute, "computes-unlocked": compute_unlocked}
# Seconds per batch of one stage.
_MIN_S, _MAX_S = 0.003, 0.030
_SIZES: Final = (0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6)
_RECORD_BYTES: Final = 20_000
_LIMITS: Final = ("", "bandwidth", "rate", "refusing rate", "concurrent")


@dataclass(frozen=True)
class Work:
    """The work of one stage; `how` is "waits", "computes" or "computes-unlocked"."""

    how: str
    s_per_batch: float

    def do(self, part: float) -> None:
        """Work for a fraction of a batch."""
        _SPENDS[self.how](part * self.s_per_batch)


NOTHING: Final = Work("waits", 0.0)


@dataclass(frozen=True)
class Reader:
    """A source whose rows take time."""

    work: Work
    rows: int

    def __len__(self) -> int:
        return _ROWS_IN_ALL

    def __getitem__(self, number: int) -> Array:
        self.work.do(1 / self.rows)
        return row(number)


@dataclass(frozen=True)
class Records:
    """A source of records in memory, whose sizes differ by up to four times."""

    usual_bytes: int

    def __len__(self) -> int:
        return _ROWS_IN_ALL

    def __getitem__(self, number: int) -> Array:
        """Return record `number`: uint8."""
        part = _SIZES[number * 7919 % len(_SIZES)]
        return np.full(int(part * self.usual_bytes), number % 100, np.uint8)


@dataclass(frozen=True)
class Cut:
    """A batch function that cuts each record to the size of a row."""

    work: Work

    def __call__(self, records: Sequence[Array]) -> Batch:
        """Work, and stack the beginnings of records."""
        self.work.do(1.0)
        return collate([record[:COLUMNS] for record in records])


@dataclass(frozen=True)
class Decode:
    """A transform of rows; diagnose distinguishes transforms by their names."""

    work: Work
    rows: int

    def __call__(self, element: Array) -> Array:
        """Work, and return the row."""
        self.work.do(1 / self.rows)
        return element


@dataclass(frozen=True)
class Augment(Decode):
    """A second transform of rows."""


@dataclass(frozen=True)
class Stack:
    """A batch function that takes time."""

    work: Work

    def __call__(self, rows: Sequence[Array]) -> Batch:
        """Work, and stack the rows."""
        self.work.do(1.0)
        return collate(rows)


@dataclass(frozen=True)
class Pipeline:
    """A pipeline as plain data: the work of its source, its two transforms and its batching.

    Attributes:
        rows: Rows in a batch.
        workers: Worker processes; 0: none.
        threads: Reader threads of each process.
        storage: The stand-in for a remote storage around the source; "" for none.
        record_bytes: Typical size of a record; the largest are four times the smallest.
        reads_batches: Whether each reader thread makes whole batches, or single rows.
    """

    rows: int
    workers: int
    threads: int
    read: Work = NOTHING
    decode: Work = NOTHING
    augment: Work = NOTHING
    stack: Work = NOTHING
    storage: str = ""
    record_bytes: int = 0
    reads_batches: bool = True

    @property
    def working(self) -> tuple[Stage, ...]:
        """The stages that take time."""
        return tuple(stage for stage in STAGES if getattr(self, stage) != NOTHING)

    def with_work(self, works: Mapping[Stage, Work]) -> "Pipeline":
        """Return the pipeline with other work for some stages."""
        changes: dict[str, Any] = {str(stage): work for stage, work in works.items()}
        return replace(self, **changes)

    def without(self, stage: Stage) -> "Pipeline":
        """Return the pipeline with one stage that takes no time."""
        return self.with_work({stage: NOTHING})

    def with_workers(self, workers: int) -> "Pipeline":
        """Return the pipeline with another number of workers."""
        return replace(self, workers=workers)

    def dataset(self) -> grain.IterDataset:
        """Build the Grain pipeline."""
        source: Any = Reader(self.read, self.rows)
        if self.storage:
            source = stand_in(Records(self.record_bytes), self.storage)
        rows = grain.MapDataset.source(source)
        rows = rows.map(Decode(self.decode, self.rows)).map(Augment(self.augment, self.rows))
        make_batch: Any = (Cut if self.storage else Stack)(self.stack)
        batch: dict[str, Any] = {"batch_size": self.rows, "batch_fn": make_batch}
        if self.reads_batches:
            batches = rows.batch(**batch).to_iter_dataset(self._read_options(2))
        else:
            batches = rows.to_iter_dataset(self._read_options(2 * self.rows)).batch(**batch)
        if self.workers == 0:
            return batches
        return batches.mp_prefetch(
            grain.MultiprocessingOptions(num_workers=self.workers, per_worker_buffer_size=2)
        )

    def _read_options(self, ahead: int) -> grain.ReadOptions:
        return grain.ReadOptions(self.threads, prefetch_buffer_size=ahead * self.threads)


def find_stage(name: str) -> Stage | None:
    """Return the stage that a Grain node's name belongs to, if any."""
    found = [stage for word, stage in _WORDS.items() if word in name]
    return found[0] if len(found) == 1 else None


def draw_pipeline(seed: int) -> Pipeline:
    """Draw a pipeline: one to three stages take time, in one or two workers, some with threads."""
    generator = np.random.default_rng(seed)
    size = generator.integers(1, 3, endpoint=True)
    working = [STAGES[number] for number in generator.choice(len(STAGES), size, replace=False)]
    pipeline = Pipeline(
        rows=int(generator.choice([4, 8, 16])),
        workers=int(generator.integers(1, 2, endpoint=True)),
        threads=int(generator.choice([0, 0, 2])),
    )
    return pipeline.with_work({stage: _draw_work(generator) for stage in working})


def _draw_work(generator: np.random.Generator) -> Work:
    seconds = float(np.exp(generator.uniform(np.log(_MIN_S), np.log(_MAX_S))))
    return Work(str(generator.choice(list(_SPENDS))), float(f"{seconds:.3g}"))


def draw_slow_reads(seed: int) -> Pipeline:
    """Draw a pipeline that waits for a storage with a latency and maybe one limit."""
    generator = np.random.default_rng([seed, 1])
    reads_batches = bool(generator.integers(2))
    return Pipeline(
        rows=int(generator.choice([4, 8, 16])),
        workers=int(generator.integers(0, 2, endpoint=True)),
        threads=int(generator.choice([0, 2, 4, 8, 16])),
        decode=Work("computes", float(generator.choice([0.0, 0.0005, 0.002]))),
        storage=_draw_storage(generator),
        record_bytes=_RECORD_BYTES,
        reads_batches=reads_batches,
    )


def _draw_storage(generator: np.random.Generator) -> str:
    """Draw a storage; its limit allows 3 to 40 reads at the same time."""
    latency_ms = exp(generator.uniform(log(5), log(60)))
    tail_ms = latency_ms * generator.uniform(1.0, 4.0)
    reads_per_s = exp(generator.uniform(log(3), log(40))) * 1e3 / latency_ms
    limit = {
        "": "",
        "bandwidth": f",bandwidth={reads_per_s * _RECORD_BYTES / 1e3:.0f}kB/s",
        "rate": f",rate={reads_per_s:.0f}/s,retry=0ms",
        "refusing rate": f",rate={reads_per_s:.0f}/s,retry={latency_ms:.0f}ms",
        "concurrent": f",concurrent={max(2, reads_per_s * latency_ms / 1e3):.0f}",
    }[str(generator.choice(_LIMITS))]
    return f"object-store,latency={latency_ms:.1f}ms,tail={tail_ms:.1f}ms{limit}"
