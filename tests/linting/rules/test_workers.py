"""How the workers are set up."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import grain
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.device.host import this_host
from netpipe.linting import linter
from netpipe.linting.linter import lint
from tests.linting.rules.linting import (
    NO_THREADS,
    by_intent,
    elements,
    in_workers,
    increment,
    kinds_of,
    lint_factory,
    loader,
    only,
    source,
)

THREADS = "threads-in-workers"
NONE = "no-workers"
MANY = "too-many-workers"
JAX = "jax-in-worker"


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the host have so many cores."""
    host = this_host()

    def have(count: int) -> None:
        monkeypatch.setattr(linter, "this_host", lambda: replace(host, cores=count))

    return have


def test_threads_in_workers_are_a_warning() -> None:
    """Grain's default of 16 reading threads is named inside workers, and fine outside."""
    default = source().to_iter_dataset()
    assert by_intent(in_workers(default), THREADS) == ("warning", "warning")
    assert by_intent(default, THREADS) == (None, None)
    report = lint(in_workers(default))
    finding = only(THREADS, report)
    assert kinds_of(finding, report) == ["ProcessPrefetch", "ToIter"]
    assert "16 threads in each of the 2 workers of mp_prefetch" in finding.message
    assert ".to_iter_dataset(grain.ReadOptions(num_threads=0))" in finding.fix


def test_a_data_loaders_threads_are_set_where_it_takes_them() -> None:
    """The fix for a DataLoader names its argument."""
    threaded = grain.DataLoader(
        data_source=range(8),
        sampler=grain.samplers.IndexSampler(8, grain.sharding.NoSharding(), seed=0),
        worker_count=2,
    )
    fix = only(THREADS, lint(threaded)).fix
    assert "DataLoader(read_options=grain.ReadOptions(num_threads=0))" in fix


def test_readers_that_share_workers_are_one_finding() -> None:
    """A mixture of many sources does not repeat itself; a buffer of nothing is no thread."""
    branches = [source().to_iter_dataset(), source().to_iter_dataset()]
    report = lint(in_workers(grain.IterDataset.mix(branches), 1))
    finding = only(THREADS, report)
    assert kinds_of(finding, report) == ["ProcessPrefetch", "ToIter", "ToIter"]
    assert "2 to_iter_dataset each read with 16 threads in the worker of" in finding.message
    unbuffered = grain.ReadOptions(num_threads=4, prefetch_buffer_size=0)
    assert by_intent(in_workers(source().to_iter_dataset(unbuffered)), THREADS) == (
        None,
        None,
    )


def test_threads_under_nested_workers_are_named_once() -> None:
    """The warning goes with the worker that reads."""
    report = lint(in_workers(in_workers(source().to_iter_dataset())))
    assert only(THREADS, report).nodes[0] == only("nested-mp-prefetch", report).nodes[1]


def test_mp_prefetch_without_workers_is_a_warning() -> None:
    """Grain leaves no trace of it: the recording of the factory has it."""
    report = lint_factory(lambda: in_workers(elements().batch(4), workers=0))
    finding = only(NONE, report)
    assert (finding.severity, kinds_of(finding, report)) == ("warning", ["NoWorkers"])
    assert [one.rule for one in report.findings] == [NONE]
    assert not lint_factory(lambda: elements().batch(4)).graph.of_kind("NoWorkers")


def test_a_thread_in_the_place_of_workers_makes_it_a_remark() -> None:
    """Then something reads ahead, as it may be meant for a small machine."""

    def threaded() -> Any:
        return grain.experimental.ThreadPrefetchIterDataset(
            in_workers(elements(), workers=0), prefetch_buffer_size=2
        )

    assert only(NONE, lint_factory(threaded)).severity == "info"


def test_a_data_loader_without_workers_is_a_remark() -> None:
    """0 is its default; with workers there is nothing to say."""
    assert by_intent(loader(workers=0), NONE) == ("info", "info")
    assert by_intent(loader(workers=2), NONE) == (None, None)


def test_more_workers_than_cores_are_a_warning(cores: Callable[[int], None]) -> None:
    """As many as there are cores are not; the fix has the user's own number."""
    cores(4)
    assert by_intent(in_workers(elements(), 4), MANY) == (None, None)
    assert by_intent(in_workers(elements(), 5), MANY) == ("warning", "warning")
    finding = only(MANY, lint(in_workers(elements(), 5)))
    assert all(count in finding.message for count in ("5 workers", "4 cores"))
    assert "num_workers=4" in finding.fix
    assert "DataLoader(worker_count=4)" in only(MANY, lint(loader(workers=5))).fix


def test_the_workers_of_all_branches_count(cores: Callable[[int], None]) -> None:
    """Branches side by side run at once; workers that never start do not count."""
    cores(4)
    branches = [in_workers(elements(), 3), in_workers(elements(), 3)]
    report = lint(grain.IterDataset.mix(branches))
    assert kinds_of(only(MANY, report), report) == ["ProcessPrefetch", "ProcessPrefetch"]
    assert "all 2 mp_prefetch together" in only(MANY, report).fix
    assert by_intent(in_workers(in_workers(elements(), 3), 2), MANY) == (None, None)


def test_jax_in_a_worker_is_a_warning() -> None:
    """Not numpy, nor jax in the training process."""

    def squared(element: Any) -> Any:
        return np.asarray(jnp.square(element))

    assert by_intent(in_workers(elements().map(squared)), JAX) == ("warning", "warning")
    assert by_intent(in_workers(elements().map(increment)), JAX) == (None, None)
    assert by_intent(in_workers(elements()).map(squared), JAX) == (None, None)
    report = lint(in_workers(source().map(squared).to_iter_dataset(NO_THREADS)))
    assert kinds_of(only(JAX, report), report) == ["ProcessPrefetch", "Map"]


def test_jax_in_many_functions_of_a_worker_is_one_finding() -> None:
    """A mix of many branches that share a function names it once, and all of its nodes."""

    def squared(element: Any) -> Any:
        return np.asarray(jnp.square(element))

    def doubled(element: Any) -> Any:
        return np.asarray(jnp.add(element, element))

    branches = [elements().map(squared) for _ in range(59)]
    report = lint(in_workers(grain.IterDataset.mix([*branches, elements().map(doubled)])))
    finding = only(JAX, report)
    assert len(finding.nodes) == 61
    assert finding.message.count("squared") == finding.message.count("doubled") == 1


def elastic(workers: int, threads: int = 0) -> Any:
    """An ElasticIterator with workers of its own."""
    return grain.experimental.ElasticIterator(
        source(),
        4,
        grain.sharding.NoSharding(),
        read_options=grain.ReadOptions(threads, threads),
        multiprocessing_options=grain.MultiprocessingOptions(workers),
    )


def test_no_workers_after_workers_should_be_removed() -> None:
    """More of them would be nested."""
    report = lint_factory(lambda: in_workers(in_workers(elements()), workers=0))
    finding = only(NONE, report)
    assert finding.severity == "info"
    assert "workers come before it" in finding.message
    assert finding.fix == "Remove this .mp_prefetch(...)"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Grain's own
def test_a_negative_number_of_workers_is_an_error() -> None:
    """Grain takes it, and fails when the first batch is asked for."""
    negative = in_workers(elements(), workers=-1)
    assert by_intent(negative, NONE) == ("error", "error")
    assert "num_workers=-1" in only(NONE, lint(negative)).message
    with pytest.raises(ValueError, match="must be non-negative"):
        next(iter(negative))


def test_the_workers_of_an_elastic_iterator_are_its_argument(cores: Callable[[int], None]) -> None:
    """Too many, and none."""
    cores(4)
    argument = "ElasticIterator(multiprocessing_options=grain.MultiprocessingOptions(num_workers="
    many = only(MANY, lint(elastic(5)))
    assert f"{argument}4))" in many.fix
    assert many.message.startswith("ElasticIterator starts 5 workers")
    none = only(NONE, lint_factory(lambda: elastic(0)))
    assert f"{argument}1))" in none.fix
    assert none.message.startswith("ElasticIterator with num_workers=0")
