"""The settings of this pipeline's batches in a trainer's configuration."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import lcm
from pathlib import Path
from typing import Any, Final, get_type_hints

from netpipe.device.host import this_host
from netpipe.errors import InputError
from netpipe.files.paths import exists
from netpipe.files.text_files import quote
from netpipe.workload.config import PipelineConfig
from netpipe.workload.sources.probe_rows import find_format

_FORMATS: Final = {
    "auto": "", "arrayrecord": "arrayrecord", "parquet": "parquet",
    "probe_chunks": "arrayrecord", "network_parquet": "parquet",
}  # fmt: skip
_BOOLEANS: Final = {"true": True, "false": False}
# Settings of MaxText's own loaders, and the settings that replace them here.
_INSTEAD: Final = {
    "grain_train_files": "network_train_files", "grain_eval_files": "network_eval_files",
    "grain_file_type": "network_data_format", "per_device_batch_size": "global_batch_size_to_load",
}  # fmt: skip


@dataclass(frozen=True)
class NetworkConfig:
    """The settings described in docs/scaling.md, under their names in MaxText."""

    network_train_files: str
    network_eval_files: str = ""
    network_data_format: str = "auto"
    max_target_length: int = 1024
    global_batch_size_to_load: int = 128
    global_batch_size_to_load_eval: int = 0
    data_sharding: tuple[str, ...] = ("data",)
    data_shuffle_seed: int = 0
    packing: bool = True
    num_epoch: int = 0
    grain_worker_count: int = 2
    grain_per_worker_buffer_size: int = 2
    grain_ram_budget_mb: int = 1024
    row_cache_mb: int = 1024
    grain_debug_mode: bool = False
    grain_debug_period_s: int = 60
    grain_visualization_dir: str = ""
    network_batch_limit_s: int = 600
    grain_worker_count_eval: int = 1
    grain_per_worker_buffer_size_eval: int = 1

    def __post_init__(self) -> None:
        """Check the types and some of the values; `for_host` checks the others."""
        for name, kind in _types().items():
            if type(value := getattr(self, name)) is not kind:
                raise InputError("config", name, f"be of type {kind.__name__}", quote(value))
        for name in ("grain_debug_period_s", "network_batch_limit_s", "grain_ram_budget_mb"):
            if (value := getattr(self, name)) < 1:
                raise InputError("config", name, "be at least 1", value)
        axes = self.data_sharding
        if not all(isinstance(axis, str) for axis in axes) or len({*axes}) < len(axes):
            raise InputError("config", "data_sharding", "name different axes", quote(axes))
        if self.network_data_format not in _FORMATS:
            constraint, found = f"be one of {', '.join(_FORMATS)}", quote(self.network_data_format)
            raise InputError("config", "network_data_format", constraint, found)

    def for_host(
        self, index: int, count: int, devices: int = 1, *, evaluates: bool
    ) -> tuple[Path, PipelineConfig]:
        """Return the data folder and the pipeline's settings for one of the hosts that load data.

        Raises:
            InputError: A value is out of range, a batch cannot be divided among the hosts or
                devices, or the folder holds another format.
        """
        part = "eval" if evaluates else "train"
        names = _NAMES[part]
        if evaluates and not self.global_batch_size_to_load_eval:
            names = names | {"batch_size": "global_batch_size_to_load"}
        values = {name: getattr(self, named) for name, named in names.items()}
        if values["batch_size"] < 1 or values["batch_size"] % lcm(count, devices):
            constraint = f"be above 0, and divisible by the {count} hosts and the {devices} devices"
            raise InputError("config", names["batch_size"], constraint, values["batch_size"])
        values |= {"batch_size": values["batch_size"] // count, "epochs": values["epochs"] or None}
        if values["workers"] == -1:
            values["workers"] = 1  # until `choose_workers` sets the number
        if self.row_cache_mb << 20 > (memory_bytes := this_host().memory_bytes):
            constraint = f"be at most {memory_bytes >> 20}, the memory of this host"
            raise InputError("config", "row_cache_mb", constraint, self.row_cache_mb)
        try:
            pipeline = PipelineConfig(split=part, shard_index=index, shard_count=count, **values)
        except InputError as error:
            name = names.get(error.field, error.field)
            constraint = error.constraint + _OR.get(error.field, "")
            raise InputError("config", name, constraint, error.found) from error
        return self._find_folder(evaluates=evaluates), pipeline

    def _find_folder(self, *, evaluates: bool) -> Path:
        own = evaluates and self.network_eval_files
        name = "network_eval_files" if own else "network_train_files"
        folder = _require_folder(name, getattr(self, name))
        found, wanted = find_format(folder), _FORMATS[self.network_data_format]
        if wanted not in ("", found):
            constraint = f"hold the format in network_data_format, {wanted}"
            raise InputError("config", name, constraint, found or "no data")
        return folder


# The setting for each field of a `PipelineConfig`.
_TRAIN: Final = {
    "seed": "data_shuffle_seed",
    "sequence_length": "max_target_length",
    "batch_size": "global_batch_size_to_load",
    "packing": "packing",
    "epochs": "num_epoch",
    "workers": "grain_worker_count",
    "worker_buffer_batches": "grain_per_worker_buffer_size",
    "row_cache_mb": "row_cache_mb",
}
# Values that a setting allows although they are below the field's minimum.
_OR: Final = {"workers": ", or -1 to have it chosen", "epochs": ", or 0 for no end"}
_NAMES: Final = {
    "train": _TRAIN,
    "eval": {name: named for name, named in _TRAIN.items() if name != "row_cache_mb"}
    | {name: f"{_TRAIN[name]}_eval" for name in ("batch_size", "workers", "worker_buffer_batches")},
}


def read_network_config(
    settings: Mapping[str, Any], overrides: Iterable[str] = ()
) -> NetworkConfig:
    """Return the settings after overrides like `packing=false`; raise an InputError if invalid."""
    merged = dict(settings)
    for word in overrides:
        name, equals, text = word.partition("=")
        if not equals:
            raise InputError("config", "override", "be name=value", quote(word))
        merged[name] = _parse(name, text)
    for name in merged:
        if name not in _types():
            way_out = f"Write {_INSTEAD[name]}" if name in _INSTEAD else ""
            allowed = f"be one of {', '.join(_types())}"
            raise InputError("config", "name", allowed, quote(name), way_out)
    if not merged.get("network_train_files"):
        raise InputError("config", "network_train_files", "be given", "none")
    if isinstance(axes := merged.get("data_sharding"), list | tuple) and axes:
        # MaxText has a list of axes for each dimension.
        merged["data_sharding"] = tuple(axes[0] if isinstance(axes[0], list | tuple) else axes)
    return NetworkConfig(**merged)


def _require_folder(name: str, text: str) -> Path:
    """Return the folder that a setting names; for files, raise an InputError with their folder."""
    # The method of Path raises for an unknown user.
    folder = Path(os.path.expanduser(text))  # noqa: PTH111
    if exists(folder) and folder.is_dir() and text:
        return folder
    way_out = "`netpipe prepare SRC... --out DIR` makes one folder from several, or from a URI"
    literal = re.split(r"(?!^)[*?[]", str(folder))[0]
    around = Path(f"{literal}_").parent
    if exists(around) and around.is_dir() and (exists(folder) or literal != str(folder)):
        way_out = f"Write {around}: all files in it are read, and their names may say train or eval"
    raise InputError("config", name, "be one folder that exists", quote(text), way_out)


def _parse(name: str, text: str) -> object:
    """Return the value of an override; text that does not fit the type stays text."""
    kind = _types().get(name, str)
    if kind is tuple:
        return tuple(filter(None, text.split(",")))
    if kind is bool:
        return _BOOLEANS.get(text.lower(), text)
    if kind is int and re.fullmatch(r"-?\d{1,99}", text):
        return int(text)
    return text


def take_network_config(config: object) -> NetworkConfig:
    """Return our settings from a trainer's configuration, or the defaults of those it lacks."""
    if isinstance(config, NetworkConfig):
        return config
    found = {name: getattr(config, name) for name in _types() if hasattr(config, name)}
    return read_network_config(found)


def _types() -> dict[str, type]:
    hints = get_type_hints(NetworkConfig).items()
    return {name: getattr(kind, "__origin__", kind) for name, kind in hints}
