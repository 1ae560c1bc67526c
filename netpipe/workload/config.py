"""The settings of this repository's pipeline and step, read from a TOML file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from sys import float_info
from typing import Any, get_args, get_type_hints

from netpipe.errors import InputError
from netpipe.files.text_files import quote, read_toml
from netpipe.workload.step.presets import PRESET_BY_NAME

BATCH_ARRAYS = (
    "inputs", "targets", "inputs_segmentation", "targets_segmentation",
    "inputs_position", "targets_position",
)  # fmt: skip
"""The arrays of a batch, which the pipeline makes and the step reads."""

_LONGEST_MEASUREMENT = 47
_MINIMA = {
    "seed": 0,
    "sequence_length": 30,
    "batch_size": 1,
    "workers": 0,
    "worker_buffer_batches": 1,
    "shard_index": 0,
    "shard_count": 1,
    "row_cache_mb": 0,
}
_MAX_SEED = 2**63 - 1
_MAX_COUNT = 2**31 - 1


def _check_range(section: str, name: str, value: int, minimum: int) -> None:
    if value < minimum:
        raise InputError(section, name, f"be at least {minimum}", quote(value))
    if value > (maximum := _MAX_SEED if name == "seed" else _MAX_COUNT):
        raise InputError(section, name, f"be at most {maximum}", quote(value))


@dataclass(frozen=True)
class PipelineConfig:
    """Settings for making batches from prepared data.

    Attributes:
        batch_size: Sequences in one batch of this host.
        packing: Fill each sequence with contexts; otherwise it holds one context and padding.
        epochs: Passes over the data; None means endless.
        workers: Processes that make batches; with 0, the calling process makes them.
        worker_buffer_batches: Finished batches that each worker may hold.
        shard_count: Hosts that read the same data; `shard_index` is this host's number, from 0.
        row_cache_mb: Memory for keeping rows, in MiB; all workers of this host share it.
    """

    seed: int = 0
    split: str = "train"
    sequence_length: int = 256
    batch_size: int = 8
    packing: bool = True
    epochs: int | None = None
    workers: int = 2
    worker_buffer_batches: int = 2
    shard_index: int = 0
    shard_count: int = 1
    row_cache_mb: int = 0

    def __post_init__(self) -> None:
        longest = {"sequence_length": _LONGEST_MEASUREMENT} if self.packing else {}
        epochs = {} if self.epochs is None else {"epochs": 1}
        for name, minimum in (_MINIMA | longest | epochs).items():
            _check_range("pipeline", name, getattr(self, name), minimum)
        if self.split not in ("train", "eval"):
            raise InputError("pipeline", "split", 'be "train" or "eval"', quote(self.split))
        if self.shard_index >= self.shard_count:
            constraint = f"be below shard_count {self.shard_count}"
            raise InputError("pipeline", "shard_index", constraint, self.shard_index)


@dataclass(frozen=True)
class StepConfig:
    """The model to train, its learning rate, and its seed."""

    preset: str = "tiny"
    learning_rate: float = 3e-4
    seed: int = 0

    def __post_init__(self) -> None:
        if self.preset not in PRESET_BY_NAME:
            constraint = f"be one of {', '.join(PRESET_BY_NAME)}"
            raise InputError("step", "preset", constraint, quote(self.preset))
        if not 0 < self.learning_rate <= float_info.max:
            found = quote(self.learning_rate)
            raise InputError("step", "learning_rate", "be above 0, and finite", found)
        _check_range("step", "seed", self.seed, -_MAX_SEED)


_SECTIONS: dict[str, type] = {"pipeline": PipelineConfig, "step": StepConfig}


@dataclass(frozen=True)
class Config:
    """A whole configuration file: one table for the pipeline, one for the step."""

    pipeline: PipelineConfig = field(default_factory=PipelineConfig)
    step: StepConfig = field(default_factory=StepConfig)


def load_config(path: Path) -> Config:
    """Read `[pipeline]` and `[step]` from a file; raise an InputError if the file is invalid."""
    document = read_toml(path)
    for name, table in document.items():
        if name not in _SECTIONS:
            raise InputError(path, "table", f"be one of {', '.join(_SECTIONS)}", quote(name))
        if not isinstance(table, dict):
            raise InputError(path, name, "be a table", quote(table))
    return Config(**{name: _section(name, document.get(name, {}), path) for name in _SECTIONS})


def _section(name: str, table: Mapping[str, Any], path: Path) -> Any:
    section = _SECTIONS[name]
    hints = get_type_hints(section)
    for key, value in table.items():
        if key not in hints:
            raise InputError(path, f"{name} key", f"be one of {', '.join(hints)}", quote(key))
        allowed = get_args(hints[key]) or (hints[key],)
        if float in allowed:
            allowed = (*allowed, int)
        if type(value) not in allowed:
            wanted = " or ".join(kind.__name__ for kind in allowed if kind is not type(None))
            raise InputError(path, f"{name}.{key}", f"be of type {wanted}", quote(value))
    try:
        return section(**table)
    except InputError as error:
        raise InputError(path, f"{name}.{error.field}", error.constraint, error.found) from error
