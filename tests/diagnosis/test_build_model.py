"""The model of a measured loader."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from netpipe.diagnosis.cost_model import LoaderModel, build_model
from netpipe.diagnosis.experiments.pulling_threads import Block
from netpipe.grain_access.loader_variants import count_threads, count_workers, section_of
from netpipe.grain_access.nodes import Graph
from netpipe.grain_access.reader import read_graph
from tests.diagnosis import loaders
from tests.diagnosis.examples import (
    block,
    evidence,
    in_rounds,
    interval,
    node,
    stage_time,
    turns,
    with_workers_graph,
)

SCALING = turns(single_thread=0.040, two_threads=0.040, two_processes=0.020)
GRAPH = with_workers_graph()
TIMES = (
    stage_time("Map", 0.030, 0.020, node=GRAPH.nodes[3]),
    stage_time("Batch", 0.010, 0.010, node=GRAPH.nodes[1]),
)
WHOLE = Block(0.020, trainer_cpu_s_per_batch=0.003, workers_cpu_s_per_batch=0.046)


WITHOUT_WORKERS = Graph((node(0, "Batch", 1), node(1, "Map")))


def build(unmodified: Sequence[Block] = (WHOLE,) * 3, **given: Any) -> LoaderModel:
    """Return the model of a loader with two workers, if no other graph is given."""
    variants = in_rounds(unmodified=unmodified)
    fields = {"graph": GRAPH, "times": TIMES, "scaling": SCALING, "variants": variants, **given}
    return build_model(evidence(**fields))


def test_stages_add_up_to_the_single_thread_run() -> None:
    """Scaling removes the time that the timing added."""
    works = [work for work, _ in build().stages]
    assert sum(work.wall_s for work in works) == pytest.approx(0.040)
    assert sum(work.cpu_s for work in works) == pytest.approx(0.040)
    assert works[0].wall_s == pytest.approx(0.030)
    assert works[0].cpu_s == pytest.approx(0.040 * 2 / 3)


def test_stages_without_time_are_not_scaled() -> None:
    """Nothing divides by 0."""
    assert build(times=(stage_time("Map", 0.0),)).stages[0][0].wall_s == 0.0


BEHIND_WORKERS = Graph(
    (
        node(0, "Batch", 1),
        node(1, "ProcessPrefetch", 2, num_workers=2),
        node(2, "Map", in_worker=True),
    )
)


@pytest.mark.parametrize(
    ("graph", "moves"),
    [(BEHIND_WORKERS, [False, False, True, True]), (WITHOUT_WORKERS, [True, True, True])],
)
def test_stages_behind_workers_stay(graph: Graph, moves: list[bool]) -> None:
    """Workers added at the end of a pipeline take all stages, and any take what Grain added."""
    times = [stage_time(str(node), 0.010, node=node) for node in graph.nodes]
    stages = build(times=(*times, stage_time("x", 0.01)), graph=graph).stages
    assert [movable for _, movable in stages] == moves


def test_sending_is_the_rest_of_the_cpu_time() -> None:
    """The cost of sending is the CPU time besides the stages, and is never negative."""
    made = build()
    assert made.send_s == pytest.approx(0.046 - 0.040)
    assert made.receive_s == pytest.approx(0.003)
    assert build(unmodified=[block(0.01, 0.0)] * 3).send_s == 0.0


def test_one_process_sends_nothing() -> None:
    """Without workers nothing is sent, whatever the CPU times are."""
    model = build(graph=WITHOUT_WORKERS)
    assert model.trainer_cost.wall_s == pytest.approx(0.040)
    assert model.send_s == model.receive_s == 0.0


@pytest.mark.parametrize(
    ("two_threads_s", "fraction"), [(0.040, 1.0), (0.020, 0.0), (0.080, 1.0), (0.030, 0.5)]
)
def test_the_share_of_the_lock(two_threads_s: float, fraction: float) -> None:
    """Two threads as fast as one always hold the lock; twice as fast, never."""
    scaling = turns(single_thread=0.040, two_threads=two_threads_s)
    assert build(scaling=scaling).gil_fraction == pytest.approx(fraction, abs=1e-9)


def test_an_unmeasured_lock_is_held() -> None:
    """Without a measurement of two threads, threads are not predicted to help."""
    assert build(scaling=turns(single_thread=0.040)).gil_fraction == 1.0
    assert build(scaling=turns(single_thread=0.040)).contention == 0.0


@pytest.mark.parametrize(
    ("cpu_s", "two_processes_s", "contention"),
    [
        (0.040, 0.025, 0.25),
        # A run that computes half of its time was slowed in that half only.
        (0.020, 0.025, 0.5),
        # A speedup above 2 is noise.
        (0.040, 0.018, 0.0),
    ],
)
def test_processes_slow_each_other(cpu_s: float, two_processes_s: float, contention: float) -> None:
    """Two processes that are 1.6 times as fast as one have slowed each other by a quarter."""
    scaling = turns(single_thread=block(0.040, cpu_s), two_processes=two_processes_s)
    assert build(scaling=scaling).contention == pytest.approx(contention)


def test_workers_are_counted_over_all_prefetches() -> None:
    """The workers of all sources of a mix count."""
    both = [node(number, "ProcessPrefetch", num_workers=2 + number) for number in range(2)]
    assert count_workers(Graph(tuple(both))) == 5
    assert count_workers(Graph((node(0, "DataLoader"),))) == 0
    assert count_workers(Graph(other_workers=4)) == 4


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_workers_of_a_data_loader_count_once(workers: int) -> None:
    """The graph has the DataLoader and the `mp_prefetch` that makes its workers."""
    assert count_workers(read_graph(loaders.data_loader(workers))) == workers


def test_threads_are_those_of_the_reader() -> None:
    """A MapDataset at the end is iterated with Grain's default number."""
    assert count_threads(with_workers_graph(threads=4)) == 4
    assert count_threads(Graph((node(0, "ToIter", num_threads=0),))) == 0
    assert count_threads(Graph((node(0, "Map", random_access=True),))) == 16
    assert count_threads(Graph()) == 0


def test_stages_run_where_they_are() -> None:
    """Sections are workers, threads and the training process."""
    threaded = Graph((node(0, "ToIter", 1, num_threads=2), node(1, "Map", random_access=True)))
    assert section_of(GRAPH.nodes[3], GRAPH) == "workers"
    assert section_of(threaded.nodes[1], threaded) == "threads"
    assert section_of(threaded.nodes[0], threaded) == "trainer"
    assert section_of(None, Graph()) == "trainer"
    assert section_of(None, Graph(other_workers=2)) == "workers"


def test_threads_work_on_random_access_alone() -> None:
    """An IterDataset runs in the thread that calls it."""
    graph = with_workers_graph(threads=4)
    stages = build(
        graph=graph,
        times=[
            stage_time("Map", 0.030, node=graph.nodes[3]),
            stage_time("Batch", 0.010, node=graph.nodes[1]),
        ],
    ).stages
    assert [work.threaded_wall_s for work, _ in stages] == pytest.approx([0.030, 0.0])


def test_a_disturbed_round_changes_nothing() -> None:
    """The medians of the blocks count."""
    bad = replace(WHOLE, workers_cpu_s_per_batch=5.0)
    assert build(unmodified=[WHOLE, bad, WHOLE]) == build()


def test_one_worker_is_modelled_by_its_own_blocks() -> None:
    """The loader with one worker is another measurement than the unmodified loader."""
    variants = turns(unmodified=block(0.040), one_worker=replace(WHOLE))
    measured = evidence(
        graph=WITHOUT_WORKERS, times=TIMES, scaling=SCALING, variants=variants, load_s=interval(1)
    )
    model = build_model(measured, "one-worker")
    assert model.workers == 1
    assert model.send_s == pytest.approx(0.046 - 0.040)
    assert build_model(measured).workers == 0


def test_a_worker_has_no_reader_threads() -> None:
    """A pipeline that is given workers loses its threads, so workers help all the more."""
    graph = Graph((node(0, "ToIter", num_threads=16), *WITHOUT_WORKERS.nodes[1:]))
    variants = turns(unmodified=block(0.040), one_worker=replace(WHOLE))
    measured = evidence(graph=graph, times=TIMES, scaling=SCALING, variants=variants)
    assert build_model(measured, "one-worker").threads == 0
    assert build_model(measured).threads == 16
