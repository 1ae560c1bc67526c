"""A training of two real processes, which are killed and resumed."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from netpipe.workload.trainer.iterators import make_network_train_iterator
from netpipe.workload.trainer.network_config import NetworkConfig
from tests.workload.killing import kill_with_workers
from tests.workload.trainer import training_process

STEPS = 6


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return int(opened.getsockname()[1])


def run_processes(
    processes: int, data: Path, folder: Path, workers: int, killed_at: int | None = None
) -> list[list[dict[str, Any]]]:
    """Train in some processes; return what each has printed. Kill all at a step."""
    port = free_port()
    command = [sys.executable, str(training_process.__file__), str(port), str(processes)]
    started = []
    for number in range(processes):
        words = [str(number), str(data), str(folder), str(STEPS), str(workers)]
        words += [] if killed_at is None else [str(killed_at)]
        with (folder / f"errors-{number}").open("w") as errors:
            started.append(
                subprocess.Popen(
                    [*command, *words], stdout=subprocess.PIPE, stderr=errors, text=True,
                    env={**os.environ, "JAX_PLATFORMS": "cpu"},
                )
            )  # fmt: skip
    try:
        printed = [_read(process, killed_at) for process in started]
        if killed_at is not None:
            return printed
        codes = [process.wait(60) for process in started]
    finally:
        _kill(started)
    assert codes == [0] * processes, (folder / "errors-0").read_text()[-2000:]
    return printed


def _read(process: "subprocess.Popen[str]", until: int | None) -> list[dict[str, Any]]:
    assert process.stdout is not None
    found = []
    for line in process.stdout:
        if not line.startswith("{"):  # Gloo prints here too.
            continue
        found.append(json.loads(line))
        if until is not None and found[-1].get("step") == until:
            break
    return found


def _kill(started: Sequence["subprocess.Popen[str]"]) -> None:
    for process in started:
        if process.poll() is None:
            kill_with_workers(process)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def by_step(printed: Sequence[Sequence[dict[str, Any]]]) -> dict[int, tuple[str, list[str]]]:
    """Return the loss of each step, and the sequences of all processes in order."""
    steps: dict[int, tuple[str, list[str]]] = {}
    for lines in printed:
        for line in lines:
            if "step" in line:
                loss, rows = steps.get(line["step"], (line["loss"], []))
                assert loss == line["loss"]
                steps[line["step"]] = loss, rows + line["rows"]
    return steps


def rows_of_one_process(data: Path, position: dict[str, Any]) -> dict[int, list[str]]:
    """Return the sequences of each step that this process loads alone from a position on."""
    config = NetworkConfig(
        str(data), max_target_length=64, grain_worker_count=0,
        global_batch_size_to_load=training_process.GLOBAL_BATCH,
    )  # fmt: skip
    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    steps = {}
    with closing(make_network_train_iterator(config, mesh, [0])) as batches:
        batches.set_state(position)
        while (number := batches.get_state()["batch"]) < STEPS:
            steps[number] = training_process.local_rows(next(batches))
    return steps


def test_two_processes_are_killed_and_go_on(many: Path, tmp_path: Path) -> None:
    """The losses are the same, bit for bit; one process continues with the same sequences."""
    steps = by_step(run_processes(2, many, tmp_path, workers=1, killed_at=STEPS - 1))
    assert sorted(steps) == list(range(STEPS))
    assert all(len(set(rows)) == training_process.GLOBAL_BATCH for _, rows in steps.values())
    losses = [float.fromhex(steps[number][0]) for number in range(STEPS)]
    assert losses[-1] < losses[0]
    position = json.loads((tmp_path / "state.json").read_text())["position"]
    printed = run_processes(2, many, tmp_path, workers=0)
    resumed = by_step(printed)
    # The last state that was kept before all were killed.
    first = training_process.STEPS_PER_STATE
    assert resumed == {number: steps[number] for number in range(first, STEPS)}
    evaluated = [lines[-1] for lines in printed]
    assert evaluated[0]["evaluated"] > 0
    assert evaluated[0] == evaluated[1]
    by_one = rows_of_one_process(many, position)
    assert {number: sorted(rows) for number, rows in by_one.items()} == {
        number: sorted(steps[number][1]) for number in resumed
    }
