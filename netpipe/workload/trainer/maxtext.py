"""Adds `dataset_type: network` and `netpipe_watch_dir` to MaxText.

`python -m netpipe.workload.trainer.maxtext CONFIG.yml key=value` runs MaxText's training with it.
"""

import atexit
import json
import sys
from collections.abc import Callable
from enum import Enum
from functools import cache, partial, wraps
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any, Final, get_type_hints

import jax
from absl import app

from netpipe.errors import InputError, MisuseError, NetpipeError
from netpipe.watching.watcher import Watcher
from netpipe.workload.tokens.vocabulary import VOCABULARY
from netpipe.workload.trainer import iterators
from netpipe.workload.trainer.network_config import NetworkConfig

# MaxText already has the other settings of a `NetworkConfig`.
_OWN_SETTINGS: Final = ("network_", "grain_debug_", "grain_visualization_", "row_cache_")

_Function = Callable[..., Any]


@cache
def register() -> None:
    """Add `dataset_type: network`, its settings and `netpipe_watch_dir` to MaxText.

    Raises:
        MisuseError: MaxText is missing, or its release lacks a part. Nothing is then changed.
    """
    for path, ours in _REPLACEMENTS.items():
        wanted = [name for name in signature(ours).parameters if name not in ("rest", "named")][1:]
        found = list(signature(_get(path)).parameters)
        if found[: len(wanted)] != wanted:
            raise _misfit(f"{path}({', '.join(wanted)}, ...)", f"({', '.join(found)})")
    _extend_configuration()
    for path, ours in _REPLACEMENTS.items():
        _replace(path, ours)


def _get(path: str) -> Any:
    try:
        return resolve_name(f"maxtext.{path}")
    except (ImportError, AttributeError) as error:
        raise _misfit(path, str(error)) from error


def _misfit(wanted: str, found: str) -> MisuseError:
    release = getattr(sys.modules.get("maxtext"), "__version__", "of an unknown release")
    return MisuseError(
        f"MaxText {release} must have {wanted} for dataset_type=network; found {found}. "
        "Install maxtext==0.2.5, with which it is tested: docs/maxtext.md"
    )


def _extend_configuration() -> None:
    from pydantic import create_model

    types, held = _get("configs.types"), _get("configs.types.MaxTextConfig").model_fields
    hints, defaults = get_type_hints(NetworkConfig), vars(NetworkConfig(""))
    own = [name for name in hints if name.startswith(_OWN_SETTINGS)]
    if missing := {"dataset_type", *hints}.difference(own, held):
        raise _misfit(f"the settings {', '.join(sorted(missing))}", "none")
    settings = {name: (hints[name], defaults[name]) for name in own}
    settings["netpipe_watch_dir"] = str, ""  # for every dataset type
    types.NetworkDataset = create_model("NetworkDataset", **settings)
    members = {member.name: member.value for member in types.DatasetType}
    types.DatasetType = Enum("DatasetType", members | {"NETWORK": "network"}, type=str)  # type: ignore[misc]
    held["dataset_type"].annotation = types.DatasetType
    held.update(types.NetworkDataset.model_fields)
    types.MaxTextConfig.model_rebuild(force=True)


def _replace(path: str, ours: _Function) -> None:
    """Replace a function of MaxText, even where a module has imported it by name."""
    owner, _, name = path.rpartition(".")
    original = _get(path)

    @wraps(original)
    def replacement(*arguments: Any, **named: Any) -> Any:
        return ours(original, *arguments, **named)

    for holder in (_get(owner), *sys.modules.values()):
        if getattr(holder, "__dict__", {}).get(name) is original:
            setattr(holder, name, replacement)


def _create_data_iterator(original: _Function, config: Any, mesh: Any) -> Any:
    if config.dataset_type != "network":
        return original(config, mesh)
    for name, constraint, holds in (
        ("vocab_size", f"be at least {VOCABULARY}", config.vocab_size >= VOCABULARY),
        ("expansion_factor_real_data", "be -1", config.expansion_factor_real_data == -1),
        # Such checkpoints lack the position in the data.
        ("enable_emergency_checkpoint", "be false", not config.enable_emergency_checkpoint),
        ("enable_multi_tier_checkpointing", "be false", not config.enable_multi_tier_checkpointing),
    ):
        if not holds:
            raise InputError("dataset_type=network", name, constraint, repr(getattr(config, name)))
    processes = range(jax.process_count())
    evaluates = config.eval_interval > 0
    return (
        iterators.make_network_train_iterator(config, mesh, processes),
        iterators.make_network_eval_iterator(config, mesh, processes) if evaluates else None,
    )


def _load_next_batch(original: _Function, self: Any) -> Any:
    """Check that the batches are ours, and raise our errors, which MaxText would only log."""
    # With context parallelism, our iterator is inside one that reorders batches.
    source = getattr(self.data_iterator, "data_iterator", self.data_iterator)
    if self.config.dataset_type == "network" and not isinstance(source, iterators.TrainIterator):
        raise MisuseError(
            f"dataset_type=network must train on a TrainIterator; found a {type(source).__name__}. "
            "Call netpipe.workload.trainer.maxtext.register() before MaxText is imported"
        )
    try:
        return original(self)
    except Exception as error:
        if isinstance(error.__context__, NetpipeError):
            raise error.__context__ from None
        raise


class _WatchedLoader(Watcher):
    """MaxText's data loader, watched; it keeps the other attributes of that loader."""

    def __init__(self, loader: Any, load: Callable[[], Any], log: Path) -> None:
        self._loader = loader
        super().__init__(iter(load, None), log)

    def __getattr__(self, name: str) -> Any:
        if "_loader" not in vars(self):
            raise AttributeError(name)
        return getattr(self._loader, name)

    def load_next_batch(self, **_: Any) -> Any:
        """Return the next batch."""
        return next(self)


def _training_loop_iteration(
    original: _Function, jax_device_state: Any, python_vars: Any, immutable_data: Any
) -> Any:
    """Watch the batches and steps of a training run, of any dataset type, if a folder is set."""
    loader, folder = python_vars["data_loader"], immutable_data["config"].netpipe_watch_dir
    if folder and not isinstance(loader, _WatchedLoader):
        load = partial(loader.load_next_batch, rampup_manager=python_vars["rampup_manager"])
        log = Path(folder, f"process-{jax.process_index()}.jsonl")
        loader = python_vars["data_loader"] = _WatchedLoader(loader, load, log)
        atexit.register(loader.stop)
    metrics = original(jax_device_state, python_vars, immutable_data)
    if folder:
        loader.on_step_end(metrics)
    return metrics


class _AsGrain(SimpleNamespace):
    """A configuration that poses as Grain's, so that MaxText saves the data iterator's position."""

    dataset_type: Final = "grain"

    def __getattr__(self, name: str) -> Any:
        return getattr(self.config, name)


def _maybe_save_checkpoint(
    original: _Function, checkpoint_manager: Any, state: Any, config: Any, data_iterator: Any,
    *rest: Any,
) -> Any:  # fmt: skip
    if config.dataset_type == "network":
        position = json.dumps(data_iterator.get_state())
        # To save a position, MaxText only needs an object with `get_state`.
        config, data_iterator = _AsGrain(config=config), SimpleNamespace(get_state=position.encode)
    return original(checkpoint_manager, state, config, data_iterator, *rest)


def _load_state_if_possible(
    original: _Function, checkpoint_manager: Any, data_iterator: Any, *rest: Any, **named: Any
) -> Any:
    restored = original(checkpoint_manager, data_iterator, *rest, **named)
    is_ours = isinstance(data_iterator, iterators.TrainIterator)
    if is_ours and checkpoint_manager is not None and (latest := checkpoint_manager.latest):
        folder = checkpoint_manager.directory / str(latest.step) / "iter"
        # The position is the same in every process, even if the number of processes has changed.
        if not (files := list(folder.glob("process_0-of-*.json"))):
            way_out = "Start a new run_name with load_full_state_path or load_parameters_path"
            raise InputError(folder, "position", "be in the checkpoint", "none", way_out)
        try:
            state = json.loads(files[0].read_text())
        except ValueError as error:
            raise InputError(files[0], "position", "be JSON", error) from error
        data_iterator.set_state(state)
    return restored


_REPLACEMENTS: Final[dict[str, _Function]] = {
    "input_pipeline.input_pipeline_interface.create_data_iterator": _create_data_iterator,
    "common.data_loader.DataLoader.load_next_batch_pre_sharding": _load_next_batch,
    "trainers.pre_train.train.training_loop_iteration": _training_loop_iteration,
    "common.checkpointing.maybe_save_checkpoint": _maybe_save_checkpoint,
    "common.checkpointing.load_state_if_possible": _load_state_if_possible,
}


if __name__ == "__main__":
    register()
    app.run(_get("trainers.pre_train.train.main"))
