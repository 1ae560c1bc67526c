"""Train the tiny model; if killed at any moment, it continues where it was.

    python examples/training/train.py --out trained --steps 200

Started again with the same folder, it continues with the losses of a training that was never
interrupted, bit for bit. Several processes with --processes and --process train together.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import netpipe
from netpipe.workload.config import StepConfig
from netpipe.workload.preparation.synthetic import data_of_user
from netpipe.workload.step.train import make_step
from netpipe.workload.trainer.iterators import TrainIterator, make_network_train_iterator
from netpipe.workload.trainer.network_config import read_network_config

KEPT = "checkpoint.npz"


def save(folder: Path, state: Any, batches: TrainIterator) -> None:
    """Keep the training's state and the position of its data together, in one file."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
    part = folder / f"part-{KEPT}"
    np.savez(part, *leaves, position=np.array(json.dumps(batches.get_state())))
    part.replace(folder / KEPT)


def restore(folder: Path, state: Any, batches: TrainIterator) -> Any:
    """Return the saved state, and continue the data from there; else return the new state."""
    if not (folder / KEPT).exists():
        return state
    with np.load(folder / KEPT) as kept:
        batches.set_state(json.loads(str(kept["position"])))
        leaves = [kept[f"arr_{number}"] for number in range(len(jax.tree.leaves(state)))]
    return jax.tree.unflatten(jax.tree.structure(state), leaves)


def main() -> None:
    """Train from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", default="", help="prepared data (default: the embedded ones)")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the checkpoint")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=20, help="steps between two checkpoints")
    parser.add_argument("--coordinator", default="127.0.0.1:12321")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("settings", nargs="*", help="as max_target_length=128")
    asked = parser.parse_args()
    if asked.processes > 1:
        jax.distributed.initialize(asked.coordinator, asked.processes, asked.process)
    asked.out.mkdir(parents=True, exist_ok=True)
    settings = {"network_train_files": asked.data or str(data_of_user())}
    small = ("max_target_length=256", "global_batch_size_to_load=8")
    config = read_network_config(settings, (*small, *asked.settings))
    mesh = Mesh(np.array(jax.devices()), config.data_sharding)
    batches = make_network_train_iterator(config, mesh, range(jax.process_count()))
    watched = netpipe.watch(batches, log=asked.out / f"watch-{asked.process}.jsonl")
    shape = config.max_target_length, config.global_batch_size_to_load
    state, step = make_step(StepConfig(learning_rate=1e-3), *shape)
    everywhere = NamedSharding(mesh, PartitionSpec())
    state = jax.tree.map(
        lambda leaf: jax.make_array_from_process_local_data(everywhere, np.asarray(leaf)),
        restore(asked.out, state, batches),
    )
    while (number := batches.get_state()["batch"]) < asked.steps:
        state, aux = step(state, next(watched))
        watched.on_step_end(aux)
        if number % 10 == 9:  # Reading the loss waits for the step, so not after each.
            sys.stdout.write(f"step {number + 1}: loss {float(aux['loss']):.9f}\n")
            sys.stdout.flush()
        if (number + 1) % asked.every == 0 and jax.process_index() == 0:
            save(asked.out, state, batches)
    watched.stop()
    batches.close()


if __name__ == "__main__":
    main()
