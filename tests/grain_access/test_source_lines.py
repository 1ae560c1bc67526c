"""Where in the user's code the nodes of a pipeline were made."""

import linecache
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import grain
import pytest

from netpipe.grain_access.nodes import Graph
from netpipe.grain_access.reader import read_graph
from netpipe.grain_access.source_lines import record_source_lines

HOOKED = (
    (grain.MapDataset, "__init__"),
    (grain.IterDataset, "__init__"),
    (grain.IterDataset, "mp_prefetch"),
)


class Reversed(grain.MapDataset):  # type: ignore[misc]  # grain is untyped
    """A dataset of the user's own."""

    def __init__(self, parent: Any) -> None:
        super().__init__(parent)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        raise AssertionError(index)


def checked(method: Any) -> Any:
    """Wrap a method, as libraries that check types do."""
    return wraps(method)(lambda *arguments: method(*arguments))


class Doubled(grain.transforms.Map):  # type: ignore[misc]  # grain is untyped
    """An operation of a DataLoader."""

    def map(self, element: int) -> int:
        """Return twice the element."""
        return 2 * element


class Even(grain.transforms.Filter):  # type: ignore[misc]  # grain is untyped
    """An operation whose method is decorated."""

    @checked
    def filter(self, element: int) -> bool:
        """Return whether the element is even."""
        return element % 2 == 0


def batched(elements: Any) -> Any:
    """Make a batch."""
    return list(elements)


def unchanged(elements: Any) -> Any:
    """Do nothing, as an operation on the whole iterator."""
    return elements


def without_workers(dataset: Any) -> Any:
    """The dataset behind an mp_prefetch that starts no workers."""
    return dataset.mp_prefetch(grain.MultiprocessingOptions(num_workers=0))


def line(graph: Graph, kind: str) -> str:
    """Return the line of code that made the first node of a kind."""
    file, _, number = graph.of_kind(kind)[0].made_at.rpartition(":")
    assert Path(file).resolve() == Path(__file__).resolve()
    return linecache.getline(__file__, int(number)).strip()


def a_range(stop: int) -> Any:
    """Make a dataset, in any thread."""
    return grain.MapDataset.range(stop)


def failing_factory(unhooked: list[Any]) -> Any:
    """Fail, as a user's factory may, while all hooks are installed."""
    assert all(now is not before for now, before in zip(hooked(), unhooked, strict=True))
    return 1 / 0


def hooked() -> list[Any]:
    """Return the current objects behind Grain's hooked names."""
    return [vars(kind)[name] for kind, name in HOOKED]


def test_each_node_has_the_line_of_its_call() -> None:
    """Each call of a chain has its own line, whatever Grain makes within it."""
    with record_source_lines() as recording:
        dataset = (
            grain.MapDataset.range(8)
            .shuffle(seed=1)
            .to_iter_dataset()
            .batch(2)
            .mp_prefetch(grain.MultiprocessingOptions(num_workers=2))
        )
    graph = read_graph(dataset, recording)
    assert line(graph, "Source") == "grain.MapDataset.range(8)"
    assert line(graph, "Shuffle") == ".shuffle(seed=1)"
    assert line(graph, "ToIter") == ".to_iter_dataset()"
    assert line(graph, "Batch") == ".batch(2)"
    assert line(graph, "ProcessPrefetch").startswith(".mp_prefetch(")
    assert line(graph, "Options").startswith(".mp_prefetch(")


def test_a_file_below_the_working_directory_is_relative_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file below the working directory has a relative path, any other an absolute one."""
    monkeypatch.chdir(Path(__file__).parent)
    with record_source_lines() as recording:
        below = grain.MapDataset.range(8)
        monkeypatch.chdir(tmp_path)
        elsewhere = grain.MapDataset.range(8)
    assert recording.made_at(below).startswith(f"{Path(__file__).name}:")
    assert recording.made_at(elsewhere).startswith(f"{Path(__file__).resolve()}:")


def test_code_without_a_file_keeps_its_name() -> None:
    """A pipeline typed at a prompt has lines too."""
    typed = compile("grain.MapDataset.range(8)", "<stdin>", "eval")
    with record_source_lines() as recording:
        dataset = eval(typed, {"grain": grain})
    (source,) = read_graph(dataset, recording).nodes
    assert source.made_at == "<stdin>:1"


def test_a_dataset_of_the_users_own_is_made_where_it_is_called() -> None:
    """The line is the call of the class, not one in its constructor."""
    with record_source_lines() as recording:
        dataset = Reversed(grain.MapDataset.range(8))
    graph = read_graph(dataset, recording)
    assert line(graph, "Unknown:Reversed").startswith("dataset = Reversed(")


def test_grains_own_functions_have_the_line_that_calls_them() -> None:
    """Grain's own parts of a DataLoader have the line of its call, as multithread_prefetch does."""
    with record_source_lines() as recording:
        loader = grain.load(range(8), batch_size=2)
    graph = read_graph(loader, recording)
    (code,) = {line(graph, node.kind) for node in graph.nodes}
    assert code.startswith("loader = ")
    with record_source_lines() as recording:
        dataset = grain.MapDataset.range(8).to_iter_dataset()
        dataset = grain.experimental.multithread_prefetch(dataset, num_threads=2, buffer_size=3)
    graph = read_graph(dataset, recording)
    assert "multithread_prefetch(" in line(graph, "MultithreadPrefetch")


def test_each_operation_of_a_data_loader_has_the_line_of_its_code() -> None:
    """One call makes them all, so its line says nothing about an operation."""
    sampler = grain.samplers.SequentialSampler(8, grain.sharding.NoSharding())
    operations = [Doubled(), Even(), grain.transforms.Batch(2, batch_fn=batched), unchanged]
    with record_source_lines() as recording:
        loader = grain.DataLoader(data_source=range(8), sampler=sampler, operations=operations)
    graph = read_graph(loader, recording)
    kinds = ("Operation", "Batch", "Filter", "Source")
    assert [line(graph, kind).partition("(")[0] for kind in kinds] == [
        "def unchanged", "def batched", "@checked", "loader = grain.DataLoader",
    ]  # fmt: skip
    own, doubled = (replace(graph, nodes=(node,)) for node in graph.of_kind("Map"))
    assert line(own, "Map") == line(graph, "Source")
    assert line(doubled, "Map") == "def map(self, element: int) -> int:"


def test_an_mp_prefetch_without_workers_is_a_node_of_its_own() -> None:
    """Grain leaves no dataset for it; the recording adds a node."""
    with record_source_lines() as recording:
        below = grain.MapDataset.range(8).to_iter_dataset()
        dataset = without_workers(below).batch(2)
    graph = read_graph(dataset, recording)
    assert [node.kind for node in graph.nodes] == ["Batch", "NoWorkers", "ToIter", "Source"]
    assert [node.parents for node in graph.nodes] == [(1,), (2,), (3,), ()]
    assert not any(node.in_worker for node in graph.nodes)
    assert line(graph, "NoWorkers").startswith("return dataset.mp")


def test_no_workers_may_be_the_last_call() -> None:
    """The node is then the root; an mp_prefetch with workers adds no such node."""
    with record_source_lines() as recording:
        below = grain.MapDataset.range(8).to_iter_dataset()
        started = below.mp_prefetch(grain.MultiprocessingOptions(num_workers=1))
        dataset = without_workers(grain.MapDataset.range(8).to_iter_dataset())
    kinds = [node.kind for node in read_graph(dataset, recording).nodes]
    assert kinds == ["NoWorkers", "ToIter", "Source"]
    assert not read_graph(started, recording).of_kind("NoWorkers")


def test_datasets_made_before_have_no_line() -> None:
    """Without a recording, or outside of it, lines are not known."""
    before = grain.MapDataset.range(8)
    with record_source_lines() as recording:
        dataset = before.batch(2)
    batch, source = read_graph(dataset, recording).nodes
    assert (bool(batch.made_at), source.made_at) == (True, "")
    assert {node.made_at for node in read_graph(dataset).nodes} == {""}


def test_grain_is_as_it_was_after_a_factory_that_fails() -> None:
    """The hooks pass on errors of Grain, and are removed in any case."""
    before = hooked()
    with pytest.raises(ZeroDivisionError), record_source_lines():
        failing_factory(before)
    assert hooked() == before
    dataset = grain.MapDataset.range(8)
    with record_source_lines(), pytest.raises(ValueError, match="seed"):
        dataset.shuffle()


def test_recordings_may_be_nested() -> None:
    """Each recording has the datasets made while it runs; the last one to end removes the hooks."""
    before = hooked()
    with record_source_lines() as outer:
        early = grain.MapDataset.range(1)
        with record_source_lines() as inner:
            both = grain.MapDataset.range(2)
    datasets = (early, both)
    assert [bool(outer.made_at(dataset)) for dataset in datasets] == [True, True]
    assert [bool(inner.made_at(dataset)) for dataset in datasets] == [False, True]
    assert hooked() == before


def test_datasets_made_in_another_thread_are_recorded() -> None:
    """A factory may build its branches in threads."""
    with record_source_lines() as recording, ThreadPoolExecutor(4) as pool:
        made = list(pool.map(a_range, range(1, 33)))
    lines = {line(read_graph(dataset, recording), "Source") for dataset in made}
    assert [code.startswith("return ") for code in lines] == [True]
