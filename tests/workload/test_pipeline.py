"""The assembled pipeline."""

import dataclasses
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from netpipe.errors import InputError
from netpipe.grain_access.reader import read_graph
from netpipe.workload import pipeline
from netpipe.workload.config import PipelineConfig
from netpipe.workload.formats.addresses import AddressTable
from netpipe.workload.formats.index import INDEX_NAME, load_index
from netpipe.workload.formats.parquet import read_parquet
from netpipe.workload.formats.rows import MeasurementArray
from netpipe.workload.pipeline import build
from netpipe.workload.sampling.context_order import RowBlock, contexts_per_row
from netpipe.workload.sampling.sampler import DrawnRows, read_block
from netpipe.workload.sources import parquet_source
from netpipe.workload.sources.probe_rows import ArrayRecordSource
from netpipe.workload.tokens.batches import Batch, Sequences, concatenate
from tests.workload import reference
from tests.workload.factories import as_table
from tests.workload.layout_v0 import encode_row_v0, write_records
from tests.workload.reference import Ping

IN_PROCESS = PipelineConfig(seed=3, sequence_length=256, batch_size=4, workers=0)
UNPACKED = dataclasses.replace(IN_PROCESS, packing=False)
BOTH = pytest.mark.parametrize("config", [IN_PROCESS, UNPACKED], ids=["packed", "unpacked"])


def _take(data: Path, config: PipelineConfig, count: int | None = None) -> list[Batch]:
    iterator = iter(build(data, config))
    try:
        return [batch for batch, _ in zip(iterator, range(count or 10**9), strict=False)]
    finally:
        iterator.close()


def _assert_equal(left_batches: list[Batch], right_batches: list[Batch]) -> None:
    for left, right in zip(left_batches, right_batches, strict=True):
        assert left.keys() == right.keys()
        for key, value in left.items():
            np.testing.assert_array_equal(right[key], value)


def _probes(folder: Path, split: str) -> list[int]:
    source = ArrayRecordSource(folder, split)
    return [row.probe for row in source.read(range(len(source.row_measurements)))]


def test_packed_batches_are_what_the_definition_says(
    prepared: Path, histories: dict[int, list[Ping]]
) -> None:
    """Two epochs from disk to batches are those of the plain reference, token for token."""
    config = dataclasses.replace(IN_PROCESS, epochs=2)
    rows = [histories[probe] for probe in _probes(prepared, "train")]
    sizes = [len(row) for row in rows]
    batches = _take(prepared, config)
    in_epoch = len(batches) // 2
    assert in_epoch > 1
    for number, batch in enumerate(batches):
        epoch, block = divmod(number, in_epoch)
        mine = reference.rows_of_blocks(sizes, seed=3, epoch=epoch, blocks=in_epoch)[block]
        contexts = (
            reference.encode_each(
                reference.sample(rows[row], seed=3, place=(epoch, row, context), target=8)
            )
            for row, context in reference.draws(
                {row: sizes[row] for row in mine}, seed=3, epoch=epoch
            )
        )
        for line, segments in enumerate(reference.pack(contexts, sequences=4, room=257)):
            tokens = [token for segment in segments for token in segment]
            numbers = [number for number, segment in enumerate(segments, 1) for _ in segment]
            places = [place for segment in segments for place in range(len(segment))]
            assert batch["inputs"][line].tolist() == reference.padded(tokens, 257)[:-1]
            assert batch["targets"][line].tolist() == reference.padded(tokens, 257)[1:]
            assert (
                batch["inputs_segmentation"][line].tolist() == (reference.padded(numbers, 257)[:-1])
            )
            assert batch["inputs_position"][line].tolist() == reference.padded(places, 257)[:-1]


def test_unpacked_batches_are_what_the_definition_says(
    prepared: Path, histories: dict[int, list[Ping]]
) -> None:
    """Two epochs from disk to batches are those of the plain reference, token for token."""
    config = dataclasses.replace(UNPACKED, epochs=2)
    rows = [histories[probe] for probe in _probes(prepared, "train")]
    sizes = [len(row) for row in rows]
    expected = []
    for epoch in range(2):
        for row, number in reference.epoch_order(sizes, config.seed, epoch):
            place = (epoch, row, number)
            drawn = reference.sample(rows[row], seed=config.seed, place=place, target=8)
            expected.append(reference.encode(drawn))
    batches = _take(prepared, config)
    assert len(batches) == len(expected) // 4
    inputs = np.concatenate([batch["inputs"] for batch in batches])
    targets = np.concatenate([batch["targets"] for batch in batches])
    segmentation = np.concatenate([batch["inputs_segmentation"] for batch in batches])
    for line, tokens in enumerate(expected[: len(inputs)]):
        whole = reference.padded(tokens, 257)
        assert inputs[line].tolist() == whole[:-1]
        assert targets[line].tolist() == whole[1:]
        assert segmentation[line].sum() == min(len(tokens), 256)


@pytest.mark.parametrize(
    ("config", "workers"), [(IN_PROCESS, 2), (UNPACKED, 2)], ids=["packed", "unpacked"]
)
def test_workers_change_nothing(prepared: Path, config: PipelineConfig, workers: int) -> None:
    """Batches are the same, in the same order, with and without workers."""
    with_workers = _take(prepared, dataclasses.replace(config, workers=workers), 9)
    _assert_equal(_take(prepared, config, 9), with_workers)


@pytest.mark.parametrize(
    ("config", "workers"),
    [(IN_PROCESS, 0), (IN_PROCESS, 1), (UNPACKED, 0)],
    ids=["packed", "packed-worker", "unpacked"],
)
def test_rows_in_memory_change_nothing(
    prepared: Path, config: PipelineConfig, workers: int
) -> None:
    """Batches are the same whether rows are read from files or kept in shared memory."""
    kept = dataclasses.replace(config, row_cache_mb=1, workers=workers)
    _assert_equal(_take(prepared, config, 9), _take(prepared, kept, 9))


def test_only_sequences_travel(prepared: Path) -> None:
    """The only call after the workers makes batches of their narrow sequences."""
    graph = read_graph(build(prepared, dataclasses.replace(IN_PROCESS, workers=2)))
    behind = [node for node in graph.nodes if not node.in_worker]
    assert [str(node) for node in behind if node.kind == "Map"] == [
        "Map of netpipe.workload.tokens.batches.widen"
    ]
    assert {node.kind for node in behind} == {"Map", "Options", "ProcessPrefetch"}


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("hosts", [1, 2, 3, 8])
def test_hosts_read_each_row_once_in_an_epoch(
    many: Path, monkeypatch: pytest.MonkeyPatch, epochs: int, hosts: int
) -> None:
    """All hosts together read every row once an epoch, and nothing is left over at the end."""
    read: Counter[tuple[int, int]] = Counter()

    def read_and_note(source: ArrayRecordSource, block: RowBlock) -> DrawnRows:
        read.update((block.epoch, row) for row in block.row.tolist())
        return read_block(source, block)

    monkeypatch.setattr(pipeline, "read_block", read_and_note)
    config = dataclasses.replace(IN_PROCESS, batch_size=2, epochs=epochs, shard_count=hosts)
    batches = {
        len(_take(many, dataclasses.replace(config, shard_index=host))) for host in range(hosts)
    }
    rows = len(load_index(many).train.row_measurements)
    assert read == {(epoch, row): 1 for epoch in range(epochs) for row in range(rows)}
    assert len(batches) == 1


def test_padding_is_bounded_in_every_batch(prepared: Path) -> None:
    """At 1024 tokens below 5% of a batch is padding, and below 2% of all."""
    config = dataclasses.replace(IN_PROCESS, sequence_length=1024, batch_size=16)
    padding = [
        1 - np.mean(batch["inputs_segmentation"] > 0) for batch in _take(prepared, config, 40)
    ]
    assert max(padding) < 0.05
    assert np.mean(padding) < 0.02


@BOTH
def test_batches_have_the_shape_asked(prepared: Path, config: PipelineConfig) -> None:
    """Six int32 arrays of (batch, sequence), even when a batch is several blocks."""
    config = dataclasses.replace(config, batch_size=138, sequence_length=64)
    (batch,) = _take(prepared, config, 1)
    assert set(batch) == {
        f"{name}{kind}"
        for name in ("inputs", "targets")
        for kind in ("", "_segmentation", "_position")
    }
    assert {array.shape for array in batch.values()} == {(138, 64)}
    assert {array.dtype for array in batch.values()} == {np.dtype(np.int32)}


def test_the_batch_size_cuts_one_sequence_of_contexts(prepared: Path) -> None:
    """Larger batches hold the contexts of the smaller ones, in order."""
    small = _take(prepared, UNPACKED, 12)
    large = _take(prepared, dataclasses.replace(UNPACKED, batch_size=48), 1)
    _assert_equal([concatenate(small)], large)  # type: ignore[arg-type, list-item]


def test_it_goes_on_for_ever(prepared: Path) -> None:
    """Without epochs the end of the data is not the end, and no epoch repeats another."""
    contexts = int(contexts_per_row(load_index(prepared).train.row_measurements).sum())
    config = dataclasses.replace(UNPACKED, batch_size=contexts)
    first, second, third = _take(prepared, config, 3)
    assert not np.array_equal(first["inputs"], second["inputs"])
    assert not np.array_equal(second["inputs"], third["inputs"])


def test_hosts_share_the_blocks(prepared: Path) -> None:
    """Three hosts together see every sequence of the lone host once, in batches alike in number."""
    config = dataclasses.replace(UNPACKED, epochs=3)
    alone = [line.tobytes() for batch in _take(prepared, config) for line in batch["inputs"]]
    shared = [
        _take(prepared, dataclasses.replace(config, shard_index=host, shard_count=3))
        for host in range(3)
    ]
    assert len({len(batches) for batches in shared}) == 1
    lines = Counter(
        line.tobytes() for batches in shared for batch in batches for line in batch["inputs"]
    )
    assert lines == Counter(alone[: 3 * 4 * len(shared[0])])
    assert len(alone) - sum(lines.values()) < 3 * 4


def _of_size(histories: dict[int, list[Ping]], size: int) -> tuple[list[Ping], int]:
    return next((pings, probe) for probe, pings in histories.items() if len(pings) == size)


def test_inherited_files_give_batches(tmp_path: Path, histories: dict[int, list[Ping]]) -> None:
    """A folder of version 0 without an index is a pipeline's data as it is, even in workers."""
    records = [encode_row_v0(pings, probe) for probe, pings in histories.items()]
    write_records(tmp_path / "probes.arrayrecord", records)
    alone = _take(tmp_path, IN_PROCESS, 3)
    assert all(batch["inputs_segmentation"].any() for batch in alone)
    _assert_equal(alone, _take(tmp_path, dataclasses.replace(IN_PROCESS, workers=1), 3))


def test_version_0_gives_the_same_batches(
    tmp_path: Path, prepared: Path, histories: dict[int, list[Ping]]
) -> None:
    """The same rows in the inherited layout become the same batches, packed or not."""
    old = Path(shutil.copytree(prepared, tmp_path / "old"))
    index = load_index(old)
    for split in (index.train, index.eval):
        for shard in split.shards:
            write_records(
                old / shard.file,
                [encode_row_v0(*_of_size(histories, size)) for size in shard.row_measurements],
            )
    document = json.loads((old / INDEX_NAME).read_text())
    (old / INDEX_NAME).write_text(json.dumps({**document, "layout_version": 0}))
    _assert_equal(_take(prepared, IN_PROCESS, 20), _take(old, IN_PROCESS, 20))
    _assert_equal(_take(prepared, UNPACKED, 20), _take(old, UNPACKED, 20))


def test_a_row_group_of_parquet_is_read_once_in_an_epoch(
    tmp_path: Path, histories: dict[int, list[Ping]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks take their rows group by group, however many groups there are."""
    parts = [as_table(pings, probe) for probe, pings in histories.items()]
    with pq.ParquetWriter(tmp_path / "groups.parquet", parts[0].schema) as writer:
        for _ in range(5):
            writer.write_table(pa.concat_tables(parts))
    read: Counter[int] = Counter()

    def read_and_count(
        path: Path, addresses: AddressTable, row_groups: list[int]
    ) -> Iterator[MeasurementArray]:
        read.update(row_groups)
        return read_parquet(path, addresses, row_groups)

    dataset = build(tmp_path, dataclasses.replace(IN_PROCESS, batch_size=2, epochs=1))
    monkeypatch.setattr(parquet_source, "read_parquet", read_and_count)
    assert len(list(dataset)) > 4
    assert read == dict.fromkeys(range(5), 1)


def test_workers_initialise_no_device(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a worker process no jax backend is initialised, so it takes no accelerator memory."""

    def concatenate_and_look(blocks: list[Sequences]) -> Sequences:
        from jax._src import xla_bridge

        seen = [os.getpid(), len(xla_bridge._backends)]
        return {**concatenate(blocks), "seen": np.array(seen, np.int32)}

    monkeypatch.setattr(pipeline, "concatenate", concatenate_and_look)
    monkeypatch.setattr(pipeline, "widen", dict)
    (batch,) = _take(prepared, dataclasses.replace(IN_PROCESS, workers=1), 1)
    pid, backends = batch["seen"].tolist()
    assert pid != os.getpid()
    assert backends == 0


def test_too_little_for_one_batch(prepared: Path) -> None:
    """Fewer contexts than one batch of every host needs are refused when it is built."""
    config = dataclasses.replace(UNPACKED, batch_size=500, shard_count=2, epochs=1)
    build(prepared, dataclasses.replace(config, epochs=30))
    with pytest.raises(InputError, match=r"split train.* 1000 .*found \d+\. "):
        build(prepared, config)


def test_too_few_rows_to_share(prepared: Path) -> None:
    """Packed, each block of each host must have rows of its own."""
    config = dataclasses.replace(IN_PROCESS, shard_count=100)
    with pytest.raises(InputError, match=r"split train.* 1600 .*found \d+\. "):
        build(prepared, config)


def test_building_reads_no_row(tmp_path: Path, prepared: Path) -> None:
    """A damaged record does not keep the pipeline from being built."""
    damaged = Path(shutil.copytree(prepared, tmp_path / "damaged"))
    for shard in load_index(damaged).train.shards:
        content = bytearray((damaged / shard.file).read_bytes())
        content[100:120] = bytes(20)
        (damaged / shard.file).write_bytes(content)
    iterator = iter(build(damaged, IN_PROCESS))
    with pytest.raises(InputError, match=r"train-\S+, record \d+: "):
        list(zip(iterator, range(100), strict=False))
    iterator.close()


def test_what_travels_to_a_worker_is_small(prepared: Path) -> None:
    """The recipe itself is a few kilobytes: no row is captured."""
    pickled = cloudpickle.dumps(build(prepared, dataclasses.replace(IN_PROCESS, workers=2)))
    assert len(pickled) < 50_000


def test_parquet_gives_batches(parquet: Path) -> None:
    """A folder of parquet measurements is a pipeline's data as it is."""
    (batch,) = _take(parquet, IN_PROCESS, 1)
    assert batch["inputs_segmentation"].sum() > 0
