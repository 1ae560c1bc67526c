"""A Ray cluster on loopback, for studies and tests."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

STORE_BYTES = 80 << 20
"""Shared memory of a node; Ray requires at least 75 MiB."""


@contextmanager
def ray_nodes(count: int, store_bytes: int = STORE_BYTES) -> Iterator[Any]:
    """Yield a cluster of nodes with one CPU each, below this process, and remove it.

    Its tasks keep this process's priority, which Ray would lower by default.
    """
    from ray.cluster_utils import Cluster

    # The path of a socket must be short, and pytest's folders have long ones.
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_TMPDIR", folder)
        patch.setenv("RAY_worker_niceness", "0")
        cluster = Cluster()
        try:
            for _ in range(count):
                cluster.add_node(num_cpus=1, object_store_memory=store_bytes)
            yield cluster
        finally:
            cluster.shutdown()
            shutil.rmtree(folder, ignore_errors=True)
