"""Tasks that do not end on one node of a cluster, so that a test can kill it in the middle."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import psutil

from netpipe.workload.formats.places import Place
from netpipe.workload.preparation.ray_runner import run_on_ray
from netpipe.workload.preparation.tasks import Advance, Task

_POLL_S = 0.02


@dataclass(frozen=True)
class HeldTask:
    """A task that writes the number of its process into a file and hangs, on one node only."""

    task: Task
    node: str
    begun: Path

    @property
    def rows(self) -> int:
        """The rows of the task."""
        return self.task.rows

    @property
    def work(self) -> Place:
        """The work folder of the task."""
        return self.task.work

    def run(self, advance: Advance) -> None:
        """Hang on the node; elsewhere wait until that happens, and then do the work."""
        import ray

        if ray.get_runtime_context().get_node_id() == self.node:
            part = self.begun.with_suffix(".part")
            part.write_text(str(os.getpid()))
            part.rename(self.begun)
            time.sleep(3600)
        while not self.begun.exists():
            time.sleep(_POLL_S)  # This node would do it all before the other one begins.
        self.task.run(advance)


@dataclass(frozen=True)
class HoldingRunner:
    """The runner, with tasks that hang on a node, except the first one."""

    address: str
    node: str
    begun: Path

    def __call__(self, tasks: Sequence[Task], advance: Advance) -> None:
        """Run the tasks."""
        held: Any = [HeldTask(task, self.node, self.begun) for task in tasks[1:]]
        run_on_ray(self.address, [tasks[0], *held], advance)


@contextmanager
def once_begun(begun: Path, act: Any) -> Iterator[None]:
    """Call a function with the held process when a task hangs, while the block runs."""

    def watch() -> None:
        while not begun.exists():
            time.sleep(_POLL_S)
        act(psutil.Process(int(begun.read_text())))

    thread = Thread(target=watch, daemon=True)
    thread.start()
    yield
    thread.join()


def kill_node(worker: psutil.Process) -> None:
    """Kill the node of a process of a task: its raylet, and all processes below that."""
    raylet = worker.parent()
    assert raylet is not None
    assert raylet.name() == "raylet"
    for process in (raylet, *raylet.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
