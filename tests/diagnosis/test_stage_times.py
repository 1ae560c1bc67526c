"""What each stage of a loader takes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from netpipe.clock import MonotonicClock
from netpipe.diagnosis import stage_times as module
from netpipe.diagnosis.loader_variants import single_thread_variant
from netpipe.diagnosis.stage_times import Function, Samples, StageTime, measure_stage_times
from netpipe.linting.graph.nodes import Graph
from netpipe.linting.graph.reader import read_graph
from netpipe.session.heartbeat import UNWATCHED
from tests.diagnosis import loaders
from tests.diagnosis.examples import node

MAP = "Map of tests.diagnosis.loaders.double"


def path(*names: str) -> tuple[Function, ...]:
    """Return a path of functions in one file, each where it begins."""
    return tuple(Function(name, "mine.py", line) for line, name in enumerate(names, 1))


def looked(**seconds: float) -> Samples:
    """Return what was seen; `load_decode` is the path from load to decode."""
    seen = Samples()
    for name, wall_s in seconds.items():
        seen.wall_s[path(*name.split("_"))] = wall_s
        seen.cpu_s[path(*name.split("_"))] = wall_s / 2
    return seen


def timed_stages(loader: Callable[[], Any]) -> dict[str, StageTime]:
    """Return the stages of a loader's lane by their names, each timed for next to no time."""
    lane, graph = single_thread_variant(loader)
    return {
        one.name: one for one in measure_stage_times(lane, graph, 0.0, MonotonicClock(), UNWATCHED)
    }


def test_the_main_path_holds_half_of_the_time() -> None:
    """From the outermost on, as far as one function has at least half of all."""
    assert module.find_main_path(looked(load_read=4, load_decode_inner=6, other=1).wall_s) == (
        "load",
        "decode",
        "inner",
    )
    assert module.find_main_path(looked(load_read=4, load_decode=4, other=1).wall_s) == ("load",)
    assert module.find_main_path(looked(a=1, b=1, c=1).wall_s) == ()
    assert module.find_main_path({}) == ()


def test_time_in_a_function_itself_ends_the_path() -> None:
    """What is below must have half of all, not half of what is above it."""
    assert module.find_main_path(looked(load=6, load_decode=4).wall_s) == ("load",)


def test_paths_are_stages() -> None:
    """All that is below the main path is one; the others are themselves; the largest is first."""
    seen = looked(load_decode=5, load_decode_inner=1, load_decode_other=1, load_read=2, log=1)
    found = module.stages_of_samples(seen, 0.100)
    assert [one.name for one in found] == ["load > decode", "load > read", "log"]
    assert [one.s_per_batch for one in found] == pytest.approx([0.070, 0.020, 0.010])
    assert [one.cpu_s_per_batch for one in found] == pytest.approx([0.035, 0.010, 0.005])
    assert (found[0].function, found[0].made_at) == ("decode", "mine.py:2")
    assert (found[0].node, found[0].single_thread_node) == (None, None)


def test_few_of_many_paths_are_told() -> None:
    """The main one and eight others."""
    many = looked(load=100, **{f"other{number}": number + 1 for number in range(20)})
    assert len(module.stages_of_samples(many, 0.1)) == 9


def test_nothing_seen_is_no_stage() -> None:
    """A loader that never showed its own code has none."""
    assert module.stages_of_samples(Samples(), 0.1) == []


def test_the_same_nodes_are_found_in_both_graphs() -> None:
    """Infrastructure aside, by what they do, in their order; two maps alike are two."""
    lane = Graph(
        (
            node(0, "Map", 1, transform="f"),
            node(1, "ToIter", 2),
            node(2, "Map", 3, transform="f"),
            node(3, "Options", 4),
            node(4, "Source"),
        )
    )
    whole = Graph((node(0, "ProcessPrefetch", 1), *(_moved(one) for one in lane.nodes)))
    same = module.match_nodes(lane, whole)
    assert {number: one.id for number, one in same.items()} == {0: 1, 1: 2, 2: 3, 4: 5}


def test_a_map_of_batches_is_not_that_of_elements() -> None:
    """The same function before and behind the reader is two stages."""
    lane = Graph((node(0, "Map", transform="f", random_access=True),))
    assert module.match_nodes(lane, Graph((node(0, "Map", transform="f"),))) == {}


def _moved(one: Any) -> Any:
    below = (number + 1 for number in one.parents)
    return node(one.id + 1, one.kind, *below, **one.parameters)


@pytest.mark.parametrize(
    "loader", [loaders.plain, loaders.threaded, loaders.with_worker, loaders.random_access]
)
def test_every_stage_of_grains_is_timed(loader: Callable[[], Any]) -> None:
    """Those in workers and in threads too, with their node in the graph of the loader as it is."""
    found, graph = timed_stages(loader), read_graph(loader())
    assert {"Source", MAP, "Batch"} <= set(found)
    for one in (found["Source"], found[MAP], found["Batch"]):
        assert one.node is not None
        assert str(graph.nodes[one.node.id]) == one.name
        assert one.single_thread_node is not None
    assert found[MAP].function == "tests.diagnosis.loaders.double"
    assert found["Source"].function == "tests.diagnosis.loaders.Numbers"
    assert "loaders.py:" in found[MAP].made_at


def test_a_data_loader_is_timed() -> None:
    """What it made of its operations are stages like others."""
    assert {"Source", "Batch"} <= set(timed_stages(loaders.data_loader))


def test_sources_of_a_mix_are_stages_of_their_own() -> None:
    """Each of them has its node, and a name that no other has."""
    lane, graph = single_thread_variant(loaders.mixed)
    times = measure_stage_times(lane, graph, 0.0, MonotonicClock(), UNWATCHED)
    sources = [one for one in times if one.name.startswith("Source #")]
    assert len({one.node.id for one in sources if one.node is not None}) == 2
    assert len({one.name for one in sources}) == 2


def test_a_loader_in_plain_python_is_sampled() -> None:
    """Its functions are its stages, and no graph has them."""
    numbers = loaders.busy

    def load() -> Iterator[Any]:
        while True:
            yield numbers(1)

    found = measure_stage_times(load, Graph(), 0.2, MonotonicClock(), UNWATCHED)
    assert found[0].name.endswith("load > busy")
    assert found[0].function == "busy"
    assert found[0].single_thread_node is None
