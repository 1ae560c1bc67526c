"""The settings of this repository's pipeline and step, and reading them from a TOML file."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from netpipe.errors import InputError

PRESETS = ("tiny", "latency-95m")

_LONGEST_MEASUREMENT = 47


@dataclass(frozen=True)
class PipelineConfig:
    """How prepared data become batches.

    Attributes:
        seed: Seeds every random choice of the pipeline.
        split: The probes to read: "train" or "eval".
        sequence_length: Tokens in one sequence of `inputs`.
        batch_size: Sequences in one batch of this host.
        packing: Whether a sequence is filled with contexts; else it holds one, and padding.
        epochs: Passes over the data; None: endless.
        workers: Processes that make batches; 0 makes them in the calling process.
        worker_buffer_batches: Finished batches that each worker may hold.
        shard_count: Hosts that read the same data; `shard_index` is this host's, from 0.
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

    def __post_init__(self) -> None:
        minima = {
            "seed": 0,
            "sequence_length": _LONGEST_MEASUREMENT if self.packing else 30,
            "batch_size": 1,
            "workers": 0,
            "worker_buffer_batches": 1,
            "shard_index": 0,
            "shard_count": 1,
        }
        for name, minimum in minima.items():
            if getattr(self, name) < minimum:
                raise InputError("pipeline", name, f"be at least {minimum}", getattr(self, name))
        if self.epochs is not None and self.epochs < 1:
            raise InputError("pipeline", "epochs", "be at least 1, or left out", self.epochs)
        if self.split not in ("train", "eval"):
            raise InputError("pipeline", "split", 'be "train" or "eval"', repr(self.split))
        if self.shard_index >= self.shard_count:
            constraint = f"be below shard_count {self.shard_count}"
            raise InputError("pipeline", "shard_index", constraint, self.shard_index)


@dataclass(frozen=True)
class StepConfig:
    """The model that is trained.

    Attributes:
        preset: A name in `PRESETS`; its widths are in `netpipe.step.presets`.
        seed: Seeds the parameters and the synthetic tokens.
    """

    preset: str = "tiny"
    learning_rate: float = 3e-4
    seed: int = 0

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise InputError("step", "preset", f"be one of {', '.join(PRESETS)}", repr(self.preset))
        if not self.learning_rate > 0:
            raise InputError("step", "learning_rate", "be above 0", self.learning_rate)


@dataclass(frozen=True)
class Config:
    """A whole configuration file: one table for the pipeline, one for the step."""

    pipeline: PipelineConfig = field(default_factory=PipelineConfig)
    step: StepConfig = field(default_factory=StepConfig)


_Section = TypeVar("_Section")


def load_config(path: Path) -> Config:
    """Read a TOML file with the tables `[pipeline]` and `[step]`, both optional.

    Raises:
        InputError: The file is not TOML, or a key or a value in it is not allowed.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(path, "file", "be readable", error.strerror) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(path, "file", "be TOML", error) from error
    sections = {"pipeline": PipelineConfig, "step": StepConfig}
    for name, table in document.items():
        if name not in sections:
            raise InputError(path, "table", f"be one of {', '.join(sections)}", repr(name))
        if not isinstance(table, dict):
            raise InputError(path, name, "be a table", repr(table))
    return Config(
        pipeline=_section(PipelineConfig, document.get("pipeline", {}), path, "pipeline"),
        step=_section(StepConfig, document.get("step", {}), path, "step"),
    )


def _section(section: type[_Section], table: Mapping[str, Any], path: Path, name: str) -> _Section:
    hints = get_type_hints(section)
    for key, value in table.items():
        if key not in hints:
            raise InputError(path, f"{name} key", f"be one of {', '.join(hints)}", repr(key))
        allowed = get_args(hints[key]) or (hints[key],)
        if float in allowed:
            allowed = (*allowed, int)
        if type(value) not in allowed:
            wanted = " or ".join(kind.__name__ for kind in allowed if kind is not type(None))
            raise InputError(path, f"{name}.{key}", f"be of type {wanted}", repr(value))
    try:
        return section(**table)
    except InputError as error:
        raise InputError(
            path, f"{name}.{error.field}", error.constraint, error.found, error.way_out
        ) from error
