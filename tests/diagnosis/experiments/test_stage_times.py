"""The time of each stage of a loader."""

from collections.abc import Callable, Iterator
from itertools import count
from types import CodeType, SimpleNamespace
from typing import Any

import pytest

from netpipe.clock import Clock
from netpipe.diagnosis.experiments import stage_times as module
from netpipe.diagnosis.experiments.stage_times import Samples, StageTime, measure_stage_times
from netpipe.grain_access.loader_variants import single_thread_variant
from netpipe.grain_access.nodes import Graph
from netpipe.grain_access.reader import read_graph
from netpipe.jobs.heartbeat import UNWATCHED
from tests.diagnosis import loaders
from tests.diagnosis.examples import node
from tests.fakes import FakeClock

MAP = "Map of tests.diagnosis.loaders.double"


def path(*names: str) -> tuple[CodeType, ...]:
    """Return a path of functions in one file, one on each line."""
    code = compile("", "mine.py", "exec")
    return tuple(
        code.replace(co_name=name, co_qualname=name, co_firstlineno=line)
        for line, name in enumerate(names, 1)
    )


def looked(**seconds: float) -> Samples:
    """Return samples; `load_decode` is the path from load to decode."""
    seen = Samples()
    for name, wall_s in seconds.items():
        seen.wall_s[path(*name.split("_"))] = wall_s
        seen.cpu_s[path(*name.split("_"))] = wall_s / 2
    return seen


def timed_stages(loader: Callable[[], Any]) -> dict[str, StageTime]:
    """Return the stages of a single-thread run by name, timed as briefly as possible."""
    single_thread, graph = single_thread_variant(loader)
    return {
        stage.name: stage
        for stage in measure_stage_times(single_thread, graph, 0.0, Clock(), UNWATCHED)
    }


def test_the_main_path_has_half_of_the_time() -> None:
    """The path continues while a function has at least half of the whole time, not its caller's."""
    for seen, path in (
        (looked(load_read=4, load_decode_inner=6, other=1), ("load", "decode", "inner")),
        (looked(load_read=4, load_decode=4, other=1), ("load",)),
        (looked(load=6, load_decode=4), ("load",)),
        (looked(a=1, b=1, c=1), ()),
        (looked(), ()),
    ):
        assert module.find_main_path(seen.wall_s) == path


def test_paths_are_stages() -> None:
    """All paths below the main path are one stage; the largest comes first."""
    seen = looked(load_decode=5, load_decode_inner=1, load_decode_other=1, load_read=2, log=1)
    found = module.stages_of_samples(seen, 0.100)
    assert [stage.name for stage in found] == ["load > decode", "load > read", "log"]
    assert [stage.s_per_batch for stage in found] == pytest.approx([0.070, 0.020, 0.010])
    assert [stage.cpu_s_per_batch for stage in found] == pytest.approx([0.035, 0.010, 0.005])
    assert (found[0].function, found[0].made_at) == ("decode", "mine.py:2")
    assert (found[0].node, found[0].single_thread_node) == (None, None)


def test_the_number_of_sampled_stages_is_limited() -> None:
    """The main path and eight others are kept; a loader may also have none."""
    many = looked(load=100, **{f"other{number}": number + 1 for number in range(20)})
    assert len(module.stages_of_samples(many, 0.1)) == 9
    assert module.stages_of_samples(Samples(), 0.1) == []


def test_the_same_nodes_are_found_in_both_graphs() -> None:
    """Nodes are matched by name and order, without infrastructure; equal maps stay two."""
    single_thread = Graph(
        (
            node(0, "Map", 1, transform="f"),
            node(1, "ToIter", 2),
            node(2, "Map", 3, transform="f"),
            node(3, "Options", 4),
            node(4, "Source"),
        )
    )
    moved = (
        node(
            below.id + 1, below.kind, *(number + 1 for number in below.parents), **below.parameters
        )
        for below in single_thread.nodes
    )
    same = module.match_nodes(single_thread, Graph((node(0, "ProcessPrefetch", 1), *moved)))
    assert {number: matched.id for number, matched in same.items()} == {0: 1, 1: 2, 2: 3, 4: 5}
    # The same function before and behind the reader is two stages.
    of_elements = Graph((node(0, "Map", transform="f", random_access=True),))
    assert module.match_nodes(of_elements, Graph((node(0, "Map", transform="f"),))) == {}


@pytest.mark.parametrize("loader", [loaders.threaded, loaders.with_worker, loaders.random_access])
def test_every_stage_of_grains_is_timed(loader: Callable[[], Any]) -> None:
    """Stages of workers and threads have their node in the unmodified loader's graph."""
    found, graph = timed_stages(loader), read_graph(loader())
    assert {"Source", MAP, "Batch"} <= set(found)
    for stage in (found["Source"], found[MAP], found["Batch"]):
        assert stage.node is not None
        assert str(graph.nodes[stage.node.id]) == stage.name
        assert stage.single_thread_node is not None
    assert found[MAP].function == "tests.diagnosis.loaders.double"
    assert found["Source"].function == "tests.diagnosis.loaders.Numbers"
    assert "loaders.py:" in found[MAP].made_at


def test_a_data_loader_is_timed() -> None:
    """The operations of a DataLoader are stages."""
    assert {"Source", "Batch"} <= set(timed_stages(loaders.data_loader))


def test_sources_of_a_mix_are_stages_of_their_own() -> None:
    """Each has its node, and a unique name."""
    single_thread, graph = single_thread_variant(loaders.mixed)
    times = measure_stage_times(single_thread, graph, 0.0, Clock(), UNWATCHED)
    sources = [stage for stage in times if stage.name.startswith("Source #")]
    assert len({stage.node.id for stage in sources if stage.node is not None}) == 2
    assert len({stage.name for stage in sources}) == 2


def test_a_loader_in_plain_python_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The functions of a loader are its stages, without a node in a graph."""
    numbers, clock = loaders.busy, FakeClock()
    # If the machine pauses, neither the samples are fewer nor does one of them outweigh the others.
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=count().__next__))

    def load() -> Iterator[Any]:
        while True:
            yield numbers(1)
            clock.sleep(0.002)

    found = measure_stage_times(load, Graph(), 0.2, clock, UNWATCHED)
    assert found[0].name.endswith("load > busy")
    assert found[0].function == "busy"
    assert found[0].single_thread_node is None
