"""Batches that continue where they were: after a kill, with other workers, on other hosts."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from netpipe.errors import InputError
from netpipe.workload.config import PipelineConfig
from netpipe.workload.resume import ResumableBatches
from netpipe.workload.tokens.batches import Batch
from tests.workload.killing import kill_with_workers

PACKED = PipelineConfig(seed=3, sequence_length=64, batch_size=8, workers=0)
UNPACKED = dataclasses.replace(PACKED, packing=False)
BOTH = pytest.mark.parametrize("config", [PACKED, UNPACKED], ids=["packed", "unpacked"])
AFTER = 5


def take(
    data: Path, config: PipelineConfig, count: int, state: Mapping[str, Any] | None = None
) -> tuple[list[Batch], dict[str, Any]]:
    """Return batches from a state on, and the state after them, as it comes back from JSON."""
    with closing(ResumableBatches(data, config)) as batches:
        if state is not None:
            batches.set_state(state)
        return list(islice(batches, count)), json.loads(json.dumps(batches.get_state()))


def assert_equal(left: Iterable[Batch], right: Iterable[Batch]) -> None:
    """Compare batches array by array."""
    for one, other in zip(left, right, strict=True):
        for name, array in one.items():
            np.testing.assert_array_equal(other[name], array)


@pytest.mark.parametrize(
    ("config", "before", "workers"),
    [(PACKED, 0, 0), (UNPACKED, 1, 0)],
    ids=["packed", "unpacked"],
)
def test_a_new_process_goes_on(
    prepared: Path, config: PipelineConfig, before: int, workers: int
) -> None:
    """After any batch, and with another number of workers, the same batches follow."""
    all_batches, _ = take(prepared, config, AFTER + 4)
    begun = dataclasses.replace(config, workers=before)
    first, state = take(prepared, begun, AFTER)
    rest, _ = take(prepared, dataclasses.replace(config, workers=workers), 4, state)
    assert_equal([*first, *rest], all_batches)
    assert len(json.dumps(state)) < 1024


def test_the_position_in_an_endless_stream_costs_nothing(prepared: Path) -> None:
    """Batch 1,000,000 is the one that follows 999,999, without making those before."""
    _, state = take(prepared, PACKED, 1)
    two, _ = take(prepared, PACKED, 2, {**state, "batch": 999_999})
    one, _ = take(prepared, PACKED, 1, {**state, "batch": 1_000_000})
    assert_equal(two[1:], one)


def rows_of_step(
    data: Path, config: PipelineConfig, hosts: int, state: Mapping[str, Any] | None, count: int
) -> tuple[list[Counter[bytes]], list[dict[str, Any]]]:
    """Return the sequences of all hosts by step, and the state that each host ends with."""
    batch_size = config.batch_size // hosts
    steps = [Counter[bytes]() for _ in range(count)]
    states = []
    for host in range(hosts):
        own = dataclasses.replace(
            config, batch_size=batch_size, shard_index=host, shard_count=hosts
        )
        given, ends = take(data, own, count, state)
        states.append(ends)
        for step, batch in zip(steps, given, strict=True):
            step.update(line.tobytes() for line in batch["inputs"])
    return steps, states


@BOTH
@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 1), (2, 4), (4, 2), (1, 2), (3, 3)])
def test_other_hosts_go_on(many: Path, config: PipelineConfig, before: int, after: int) -> None:
    """All hosts together see the same sequences in every step."""
    config = dataclasses.replace(config, batch_size=24)
    uninterrupted, _ = rows_of_step(many, config, before, None, 5)
    _, states = rows_of_step(many, config, before, None, 2)
    assert all(state == states[0] for state in states)
    resumed, _ = rows_of_step(many, config, after, states[0], 3)
    assert resumed == uninterrupted[2:]


def test_a_finite_epoch_ends_where_it_would_have(prepared: Path) -> None:
    """A resumed epoch has the rest of its batches, and no more."""
    config = dataclasses.replace(PACKED, epochs=2)
    all_batches, _ = take(prepared, config, 10**6)
    _, state = take(prepared, config, 3)
    rest, _ = take(prepared, config, 10**6, state)
    assert_equal(rest, all_batches[3:])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": 4}, "seed must be 4, as configured; found 3.*as it was"),
        ({"split": "eval"}, "split must be 'eval', as configured"),
        ({"sequence_length": 128}, "sequence_length must be 128"),
        ({"packing": False}, "packing must be"),
        ({"batch_size": 16}, "global_batch_size must be 16, as configured; found 8.*the same"),
    ],
)
def test_what_would_change_the_batches_is_refused(
    prepared: Path, changed: dict[str, Any], message: str
) -> None:
    """The setting is named, and the position stays."""
    _, state = take(prepared, PACKED, 2)
    batches = ResumableBatches(prepared, dataclasses.replace(PACKED, **changed))
    with pytest.raises(InputError, match=message):
        batches.set_state(state)
    assert batches.get_state()["batch"] == 0


def test_other_data_are_refused(prepared: Path, parquet: Path) -> None:
    """The same measurements in other rows are other data."""
    _, state = take(prepared, PACKED, 1)
    with pytest.raises(InputError, match=r"data must be .*the data that the state was saved with"):
        ResumableBatches(parquet, PACKED).set_state(state)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "keys must be"),
        ([], "keys must be"),
        ({1: 2, "seed": 3}, "keys must be"),
        ({"batch": -1}, "batch must be a number of at least 0; found -1"),
        ({"batch": True}, "batch must be a number"),
        ({"block_sequences": 3}, "block_sequences must divide this host's batch size, 8"),
        ({"block_sequences": 16}, "block_sequences must divide"),
        ({"schema": "netpipe.position/2"}, "schema must be"),
    ],
)
def test_what_is_no_state_is_refused(prepared: Path, state: Any, message: str) -> None:
    """Any other document is refused, and the field named."""
    batches = ResumableBatches(prepared, PACKED)
    whole = {**batches.get_state(), **state} if state else state
    with pytest.raises(InputError, match=message):
        batches.set_state(whole)


TRAINING = """
import json, os, sys
from pathlib import Path
from netpipe.workload.config import PipelineConfig
from netpipe.workload.resume import ResumableBatches
if __name__ == "__main__":
    data, file, seen = map(Path, sys.argv[1:4])
    end, workers = map(int, sys.argv[4:])
    config = PipelineConfig(seed=3, sequence_length=64, batch_size=8, workers=workers)
    batches = ResumableBatches(data, config)
    if file.exists():
        batches.set_state(json.loads(file.read_text()))
    while batches.get_state()["batch"] < end:
        number, batch = batches.get_state()["batch"], next(batches)
        with seen.open("a") as lines:
            lines.write(f"{number} {batch['inputs'].tobytes().hex()}\\n")
        part = file.with_suffix(".part")
        part.write_text(json.dumps(batches.get_state()))
        part.replace(file)
        print(number, flush=True)
    batches.close()
"""


def test_a_killed_training_goes_on(prepared: Path, tmp_path: Path) -> None:
    """Killed with one worker, it continues with two, and sees what an unharmed one sees."""
    script, state, seen = tmp_path / "training.py", tmp_path / "state.json", tmp_path / "seen"
    script.write_text(TRAINING.replace("\\\\n", "\\n"))
    for killed_at, workers in ((2, 1), (None, 2)):
        command = [sys.executable, script, prepared, state, seen, "8", str(workers)]
        training = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        assert training.stdout is not None
        for line in training.stdout:
            if killed_at is not None and int(line) >= killed_at:
                kill_with_workers(training)
                break
        training.stdout.close()
        training.wait()
    lines = dict.fromkeys(seen.read_text().split("\n"))
    numbers = [line.partition(" ")[0] for line in lines if line]
    assert numbers == [str(number) for number in range(8)]
    expected, _ = take(prepared, PACKED, 8)
    given = [bytes.fromhex(line.partition(" ")[2]) for line in lines if line]
    assert given == [batch["inputs"].tobytes() for batch in expected]


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "truncated": lambda file: os.truncate(file, file.stat().st_size // 2),
    "replaced": lambda file: file.write_bytes(file.read_bytes() + b"."),
}


@pytest.mark.parametrize(
    ("name", "workers", "damage"),
    [
        *((name, 0, damage) for name in ("train*.arrayrecord", "*.parquet") for damage in DAMAGES),
        ("train*.arrayrecord", 1, "replaced"),
    ],
)
def test_a_file_that_is_damaged_during_training_is_named(
    tmp_path: Path, many: Path, name: str, workers: int, damage: str
) -> None:
    """Training ends with an error that names the file."""
    folder = tmp_path / "data"
    if name == "*.parquet":
        folder.mkdir()
        # More row groups than are cached.
        pq.write_table(
            pq.read_table(many.parent / "many.parquet"), folder / "a.parquet", row_group_size=700
        )
    else:
        shutil.copytree(many, folder)
    config = PipelineConfig(sequence_length=64, batch_size=8, workers=workers)
    with closing(ResumableBatches(folder, config)) as batches:
        [damaged, *_] = sorted(folder.glob(name))
        DAMAGES[damage](damaged)
        with pytest.raises(InputError, match=damaged.name):
            list(islice(batches, 1000))
