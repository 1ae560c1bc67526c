"""The input pipeline and the train step of a MaxText configuration, as factories.

Commands take `netpipe.maxtext:loader CONFIG.yml key=value`; in Python, use `partial` on `loader`.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from textwrap import shorten
from typing import Any, Final

from netpipe.errors import InputError, MisuseError, describe_error

# Measure in one process, and leave the files of the training alone.
_FORCED: Final = (
    "eval_interval=-1", "enable_checkpointing=false", "enable_goodput_recording=false",
    "enable_rampup_batch_size=false", "skip_jax_distributed_system=true",
)  # fmt: skip


def loader(config: str, *overrides: str) -> Iterator[Any]:
    """Yield the batches that MaxText's training loop loads, sharded over its mesh."""
    settings, mesh, iterator = _iterate(config, *overrides)
    from maxtext.common.data_loader import create_dataloader
    from maxtext.utils.exceptions import StopTraining

    batches = create_dataloader(settings, mesh, _reorder(iterator, settings, mesh), None, None)
    while True:
        try:
            yield batches.load_next_batch()
        except StopTraining as error:
            if isinstance(error.__context__, StopIteration):
                return
            raise (error.__context__ or error) from None


def dataset(config: str, *overrides: str) -> Any:
    """Return the Grain dataset behind `loader`: this host's batches, not placed on the mesh."""
    *_, iterator = _iterate(config, *overrides)
    return getattr(iterator, "dataloader", iterator)


def _iterate(config: str, *overrides: str) -> tuple[Any, Any, Any]:
    settings, mesh = _configure(config, *overrides)
    from maxtext.input_pipeline.input_pipeline_interface import create_data_iterator

    return settings, mesh, create_data_iterator(settings, mesh)[0]


def step(config: str, *overrides: str) -> tuple[Any, Callable[[Any, Any], tuple[Any, Any]]]:
    """Return the initial train state, and MaxText's compiled train step."""
    settings, _ = _configure(config, *overrides)
    # With these settings, MaxText's training loop does more than call its train step.
    for name, value in (("enable_diloco", True), ("moe_dropless_fallback", "step")):
        if getattr(settings, name) == value:
            raise InputError(config, name, "not be set where the step is measured", value)
    import jax
    from flax import nnx
    from flax.core.spmd import logical_axis_rules
    from maxtext.trainers.pre_train.train import train_step
    from maxtext.utils import sharding, train_utils

    _, _, shardings, _, mesh, *_, training = train_utils.setup_train_loop(settings, None)
    graph, state = nnx.split(training)
    params, shardings = sharding.maybe_update_params_sharding_with_opt(settings, shardings)
    state = jax.device_put(state, shardings)  # shard_optimizer_over_data changes the shardings
    jit = train_utils.jit_train_and_eval_step
    compiled, _ = jit(settings, graph, mesh, state, shardings, train_step, params_shardings=params)

    def run(state: Any, batch: Any) -> Any:
        with jax.set_mesh(mesh), logical_axis_rules(settings.logical_axis_rules):
            return compiled(state, batch)

    return state, run


@cache
def _configure(config: str, *overrides: str) -> tuple[Any, Any]:
    """Return a configuration and its mesh, as MaxText's train command makes them."""
    if not Path(config).is_file() or not config.endswith(".yml"):
        found = "another file" if Path(config).exists() else "none"
        raise InputError(config, "file", "be a MaxText configuration, CONFIG.yml", found)
    if wrong := [word for word in overrides if "=" not in word[1:]]:
        raise InputError(config, "override", "be key=value", repr(wrong[0]))
    try:
        from maxtext.trainers.pre_train import train
        from maxtext.utils import maxtext_utils
    except ImportError as error:
        raise MisuseError(
            f"MaxText must be importable, which needs Python 3.12 or 3.13; found {error}. Install "
            "it: pip install 'maxtext[cuda12]', or as docs/maxtext.md says for a TPU or a CPU"
        ) from error
    words = f"{Path(config).read_text(errors='ignore')} {overrides}"
    if re.search(r"dataset_type\W+network\b|\bnetpipe_watch_dir\b", words):
        from netpipe.workload.trainer.maxtext import register

        register()
    try:
        settings, _ = train.initialize(["", config, *overrides, *_FORCED])
        return settings, maxtext_utils.get_mesh_from_config(settings)
    except (Exception, SystemExit) as error:
        # MaxText exits the process if a configuration has an error.
        cause = (error.__context__ or error) if isinstance(error, SystemExit) else error
        found = shorten(describe_error(cause), width=300)  # the whole text may list every key
        where, way_out = shlex.join([config, *overrides]), "Its configs/base.yml has all keys"
        raise InputError(where, "configuration", "suit MaxText", found, way_out) from error


# Importing MaxText takes seconds, so a process imports it before it starts the loader.
for _factory in (loader, dataset, step):
    vars(_factory)["netpipe_prepare"] = _configure


def _reorder(iterator: Any, config: Any, mesh: Any) -> Any:
    """Reorder batches for load-balanced context parallelism, like MaxText's `setup_train_loop`."""
    from maxtext.common.common_types import ReorderStrategy
    from maxtext.utils import max_utils, maxtext_utils, train_utils

    if (size := max_utils.reordered_cp_size(config, mesh)) == 1:
        return iterator
    strategy = config.context_parallel_reorder_strategy
    if strategy == ReorderStrategy.AUTO:
        is_ring = config.packing and config.context_parallel_strategy.lower() == "ring"
        is_striped = is_ring and config.hardware in ("gpu", "gpu_multiprocess")
        strategy = ReorderStrategy.STRIPED if is_striped else ReorderStrategy.DUAL_CHUNK_SWAP
    reorder = maxtext_utils.get_reorder_callable(size, config.shard_mode, strategy, config.hardware)
    wrap = train_utils._reorder_data_iterator_for_loader  # noqa: SLF001  # it has no public name
    return wrap(reorder, iterator)
