"""One of the processes of a training on several hosts: `test_two_processes.py` starts them.

It trains a table of token pairs, and keeps the parameters and the position after every third step.
"""

import hashlib
import json
import signal
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from netpipe.workload.tokens.vocabulary import VOCABULARY
from netpipe.workload.trainer.iterators import (
    make_network_eval_iterator,
    make_network_train_iterator,
)
from netpipe.workload.trainer.network_config import NetworkConfig

GLOBAL_BATCH = 24  # so that it can be divided among 1, 2, 3 and 8 processes
STEPS_PER_STATE = 3


def compute_loss(table: jax.Array, batch: dict[str, jax.Array]) -> jax.Array:
    """Return the mean cross-entropy of the next token, given the token before."""
    scores = jax.nn.log_softmax(table[batch["inputs"]])
    chosen = jnp.take_along_axis(scores, batch["targets"][..., None], axis=-1)[..., 0]
    counted = batch["targets_segmentation"] > 0
    return -(chosen * counted).sum() / counted.sum()


evaluate = jax.jit(compute_loss)


@jax.jit
def step(table: jax.Array, batch: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Descend once; return the new table, and the loss before."""
    loss, gradient = jax.value_and_grad(compute_loss)(table, batch)
    return table - 50.0 * gradient, loss


def say(found: dict[str, Any]) -> None:
    """Report to the test."""
    sys.stdout.write(f"{json.dumps(found)}\n")
    sys.stdout.flush()


def local_rows(batch: dict[str, Any]) -> list[str]:
    """Return a digest of each sequence that this process holds."""
    shards = sorted(batch["inputs"].addressable_shards, key=lambda shard: shard.index[0].start or 0)
    rows = np.concatenate([np.asarray(shard.data) for shard in shards])
    return [hashlib.blake2b(row.tobytes(), digest_size=8).hexdigest() for row in rows]


def train(
    port: str,
    processes: str,
    process: str,
    data: str,
    folder: str,
    end: str,
    workers: str,
    killed_at: str = "",
) -> None:
    """Train until a step, from where the folder's last state is; wait to be killed at another."""
    jax.distributed.initialize(f"127.0.0.1:{port}", int(processes), int(process))
    mesh = Mesh(np.array(jax.devices()), ("data",))
    config = NetworkConfig(
        data,
        max_target_length=64,
        global_batch_size_to_load=GLOBAL_BATCH,
        grain_worker_count=int(workers),
    )
    loading = range(jax.process_count())
    batches = make_network_train_iterator(config, mesh, loading)
    kept, table = Path(folder, "state.json"), np.zeros((VOCABULARY, VOCABULARY), np.float32)
    if kept.exists():
        state = json.loads(kept.read_text(encoding="utf-8"))
        table = np.load(Path(folder, state["table"]))
        batches.set_state(state["position"])
    everywhere = NamedSharding(mesh, PartitionSpec())
    on_device = jax.make_array_from_process_local_data(everywhere, table)
    while (number := batches.get_state()["batch"]) < int(end):
        batch = next(batches)
        on_device, loss = step(on_device, batch)
        found = {"step": number, "loss": float(loss).hex(), "rows": local_rows(batch)}
        say(found)
        if str(number) == killed_at:
            signal.pause()
        if jax.process_index() == 0 and (number + 1) % STEPS_PER_STATE == 0:
            saved = f"table-{number}.npy"
            np.save(Path(folder, saved), np.asarray(on_device))
            part = kept.with_suffix(".part")
            document = {"table": saved, "position": batches.get_state()}
            part.write_text(json.dumps(document), encoding="utf-8")
            part.replace(kept)
    batches.close()
    losses = [
        float(evaluate(on_device, batch))
        for batch in make_network_eval_iterator(config, mesh, loading)
    ]
    say({"evaluated": len(losses), "losses": losses})


if __name__ == "__main__":
    train(*sys.argv[1:])
