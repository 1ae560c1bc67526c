"""A position among the items of an Orbax checkpoint. `tox -e orbax` has Orbax."""

from contextlib import closing
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from netpipe.workload.trainer.iterators import make_network_train_iterator
from netpipe.workload.trainer.network_config import NetworkConfig

ocp = pytest.importorskip("orbax.checkpoint", reason="tox -e orbax runs this test")

MESH = Mesh(np.array(jax.devices()[:1]), ("data",))


def test_training_goes_on_from_an_orbax_checkpoint(many: Path, tmp_path: Path) -> None:
    """The checkpoint holds the weights and the position, which other workers take too."""
    config = NetworkConfig(
        str(many), max_target_length=64, global_batch_size_to_load=8, grain_worker_count=0
    )
    weights = np.arange(5.0)
    with (
        closing(make_network_train_iterator(config, MESH, [0])) as batches,
        ocp.CheckpointManager(tmp_path / "kept") as manager,
    ):
        for _ in range(3):
            next(batches)
        items = ocp.args.Composite(
            weights=ocp.args.StandardSave(weights), data=ocp.args.JsonSave(batches.get_state())
        )
        assert manager.save(3, args=items)
        manager.wait_until_finished()
        expected = np.asarray(next(batches)["inputs"])
    other = NetworkConfig(
        str(many), max_target_length=64, global_batch_size_to_load=8, grain_worker_count=1
    )
    with (
        closing(make_network_train_iterator(other, MESH, [0])) as batches,
        ocp.CheckpointManager(tmp_path / "kept") as manager,
    ):
        items = ocp.args.Composite(
            weights=ocp.args.StandardRestore(weights), data=ocp.args.JsonRestore()
        )
        kept = manager.restore(manager.latest_step(), args=items)
        np.testing.assert_array_equal(kept["weights"], weights)
        batches.set_state(kept["data"])
        np.testing.assert_array_equal(np.asarray(next(batches)["inputs"]), expected)
