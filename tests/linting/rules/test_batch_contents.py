"""The rules about the contents of batches, compared with Grain's batches with 0 to 3 workers."""

import re
from collections.abc import Callable
from typing import Any

import grain
import jax
import numpy as np
import pytest

from netpipe.linting.lint_request import INTENTS
from netpipe.linting.linter import lint
from tests.linting.rules.linting import (
    NO_THREADS,
    OneToThree,
    by_intent,
    elements,
    in_workers,
    increment,
    kinds_of,
    loader,
    numbers,
    only,
    severities,
    source,
    stream,
    with_rng,
)
from tests.linting.rules.pipeline_parts import parquet_files

LOSS = "batch-in-workers-loses-data"
ORDER = "worker-count-changes-order"
X = grain.experimental


def is_kept(element: int) -> bool:
    """Return whether a filter lets an element pass: even ones from 6 on, and all before."""
    return element < 6 or element % 2 == 0


def repeated(element: int) -> dict[str, Any]:
    """A sequence of one to three tokens."""
    return {"tokens": np.full(element % 3 + 1, element, np.int32)}


def by_threads(dataset: Any, count: int, **settings: Any) -> list[Any]:
    """All elements; threads share and interleave a dataset as worker processes do."""
    if count:
        dataset = X.multithread_prefetch(dataset, num_threads=count, buffer_size=1, **settings)
    return list(jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), list(dataset)))


STAGES: dict[str, Callable[[], Any]] = {
    "plain": stream,
    "map": lambda: stream().map(increment),
    "random_map": lambda: stream().seed(1).random_map(with_rng),
    "random_map-by-place": lambda: numbers().seed(1).random_map(with_rng).to_iter_dataset(),
    "map_with_index": lambda: stream().map_with_index(lambda index, _: index),
    "map_with_index-by-place": lambda: (
        numbers().map_with_index(lambda index, _: index).to_iter_dataset()
    ),
    "filter": lambda: stream().filter(is_kept),
    "filter-by-place": lambda: numbers().filter(is_kept).to_iter_dataset(),
    "flat_map": lambda: X.FlatMapIterDataset(stream(), OneToThree()),
    "flat_map-by-place": lambda: X.FlatMapMapDataset(numbers(), OneToThree()).to_iter_dataset(),
    "batch": lambda: stream().batch(4),
    "batch-of-one": lambda: stream().batch(1),
    "batch-by-place": lambda: numbers().batch(4).to_iter_dataset(),
    "rebatch": lambda: X.RebatchIterDataset(stream().batch(1), batch_size=4),
    "pack": lambda: X.FirstFitPackIterDataset(
        stream().map(repeated), length_struct={"tokens": 4}, num_packing_bins=3
    ),
    "concat_then_split": lambda: X.ConcatThenSplitIterDataset(
        stream().map(repeated), length_struct={"tokens": 4}
    ),
    "shuffle": lambda: numbers().shuffle(seed=1).to_iter_dataset(),
    "window": lambda: X.WindowShuffleIterDataset(stream(), window_size=6, seed=1),
    "window-by-place": lambda: X.WindowShuffleMapDataset(
        numbers(), window_size=6, seed=1
    ).to_iter_dataset(),
    "repeat": lambda: X.RepeatIterDataset(stream(7), 2),
    "repeat-once": lambda: X.RepeatIterDataset(stream(7), 1),
    "repeat-by-place": lambda: numbers(7).repeat(2).to_iter_dataset(),
    "limit": lambda: X.LimitIterDataset(stream(), 7),
    "slice": lambda: numbers()[3:20].to_iter_dataset(),
    "cache": lambda: X.CacheIterDataset(stream()),
    "mix": lambda: grain.IterDataset.mix([stream(), stream().map(increment)], [2, 1]),
    "mix-by-place": lambda: grain.MapDataset.mix([numbers(), numbers(5)]).to_iter_dataset(),
    "concatenate": lambda: grain.MapDataset.concatenate([numbers(), numbers(5)]).to_iter_dataset(),
    "zip": lambda: X.ZipIterDataset([stream(), stream().map(increment)]),
    "parquet": lambda: X.ParquetIterDataset(parquet_files()),
    "interleave": lambda: X.InterleaveIterDataset(
        [stream(6), stream(5), stream(4)], cycle_length=2
    ),
}


@pytest.mark.parametrize("stage", STAGES)
def test_worker_dependence_agrees_with_grain(stage: str) -> None:
    """The rule reports a stage only if two or three workers give other elements."""
    make = STAGES[stage]
    alone = by_threads(make(), 0)
    depends = any(by_threads(make(), count) != alone for count in (1, 2, 3))
    found = severities(in_workers(make()), "reproducible").get(ORDER)
    assert (found == "error") == depends


@pytest.mark.parametrize("shuffled", [False, True])
def test_sequential_slices_depend_on_workers(shuffled: bool) -> None:
    """Without a shuffle this rule reports it, with a shuffle the rule about that pair."""
    dataset = (numbers().shuffle(seed=1) if shuffled else numbers()).to_iter_dataset(NO_THREADS)
    alone = by_threads(dataset, 0)
    assert by_threads(dataset, 2, sequential_slice=True) != alone
    found = severities(in_workers(dataset, sequential_slice=True), "reproducible")
    assert found == {"sequential-slice-with-shuffle" if shuffled else ORDER: "error"}


def test_worker_dependence_is_info_for_throughput() -> None:
    """One finding names all nodes that run in the same workers, each with its reason."""
    pipeline = in_workers(elements().filter(increment).batch(4))
    assert by_intent(pipeline, ORDER) == ("info", "error")
    report = lint(pipeline)
    finding = only(ORDER, report)
    assert kinds_of(finding, report) == ["ProcessPrefetch", "Batch", "Filter"]
    assert finding.message.index("Batch ") < finding.message.index("Filter of")
    fix = only(ORDER, lint(pipeline, "reproducible")).fix
    assert fix.index("mp_prefetch") < fix.index("Filter, Batch")
    assert "mp_prefetch" not in finding.fix


def test_one_worker_and_threads_that_share_a_pipeline_count() -> None:
    """A second worker would change the batches; multithread_prefetch divides elements too."""
    assert by_intent(in_workers(elements().batch(4), 1), ORDER) == ("info", "error")
    assert by_intent(elements().batch(4), ORDER) == (None, None)
    shared = X.multithread_prefetch(elements().batch(4), num_threads=2, buffer_size=1)
    assert by_intent(shared, ORDER) == ("info", "error")


def test_the_fix_batches_the_map_dataset() -> None:
    """The fix has the user's batch size; for a DataLoader it proposes a MapDataset."""
    batch = ".batch(batch_size=4).to_iter_dataset(...)"
    of_dataset = only(ORDER, lint(in_workers(elements().batch(4)), "reproducible"))
    assert batch in of_dataset.fix
    of_loader = only(ORDER, lint(loader(grain.transforms.Batch(4), workers=2), "reproducible"))
    assert f"grain.MapDataset, with {batch}" in of_loader.fix


# ---- Lost remainders


@pytest.mark.parametrize(
    ("length", "size", "workers"),
    [(22, 4, 2), (22, 4, 3), (40, 16, 3), (46, 4, 2), (37, 5, 4), (3, 2, 4)],
)
def test_the_loss_is_what_grain_loses(length: int, size: int, workers: int) -> None:
    """The counts are exact, for the workers and for one process."""
    finding = only(LOSS, lint(in_workers(stream(length).batch(size, drop_remainder=True), workers)))
    ((lost, lost_by_one),) = re.findall(r"(\d+) of \d+ .* drops (\d+)", finding.message)
    kept, kept_by_one = (
        sum(map(len, by_threads(stream(length).batch(size, drop_remainder=True), count)))
        for count in (workers, 0)
    )
    assert (int(lost), int(lost_by_one)) == (length - kept, length - kept_by_one)
    assert finding.severity == "error"


def test_a_loss_names_the_pair_and_the_call() -> None:
    """The fix batches before the data are divided, with the user's batch size."""
    report = lint(in_workers(elements(22).batch(4, drop_remainder=True)))
    finding = only(LOSS, report)
    assert kinds_of(finding, report) == ["ProcessPrefetch", "Batch"]
    call = ".batch(batch_size=4, drop_remainder=True).to_iter_dataset(...)"
    assert call in finding.fix


@pytest.mark.parametrize("intent", INTENTS)
@pytest.mark.parametrize(
    "harmless",
    [
        in_workers(elements(22).batch(4)),
        in_workers(elements(22).batch(4, drop_remainder=True), 1),
        in_workers(elements(22).filter(is_kept).batch(4, drop_remainder=True), 1),
        in_workers(elements(24).batch(4, drop_remainder=True)),
        in_workers(source(22).batch(4, drop_remainder=True).to_iter_dataset(NO_THREADS)),
        in_workers(elements(22)).batch(4, drop_remainder=True),
        in_workers(source(22).repeat().to_iter_dataset(NO_THREADS).batch(4, drop_remainder=True)),
        in_workers(X.RepeatIterDataset(elements().filter(is_kept)).batch(4, drop_remainder=True)),
        in_workers(elements(2**50).batch(4, drop_remainder=True)),
        loader(grain.transforms.Batch(4, drop_remainder=True), workers=2),
    ],
)
def test_a_loss_that_one_process_has_too_is_not_reported(harmless: Any, intent: str) -> None:
    """If one process loses as much, there is no finding."""
    assert LOSS not in severities(harmless, intent)


def test_a_small_part_of_much_data_is_a_remark() -> None:
    """A loss of less than 1% is info."""
    batches = elements(1_000_336).batch(256, drop_remainder=True)
    assert by_intent(in_workers(batches), LOSS) == ("info", "info")


@pytest.mark.parametrize(
    ("pipeline", "severity"),
    [
        (elements(22).filter(increment), "warning"),
        (source(22).repeat(3).to_iter_dataset(NO_THREADS).filter(increment), "warning"),
        (X.InterleaveIterDataset([elements(), elements()], cycle_length=2), "warning"),
        (elements(899).filter(increment), "warning"),
        (elements(900).filter(increment), "info"),
        (X.InterleaveIterDataset([X.ParquetIterDataset("a.parquet")], cycle_length=1), "info"),
    ],
)
def test_an_uncountable_loss_is_bounded(pipeline: Any, severity: str) -> None:
    """A warning if the data end; info up to 1%, or if the end of the data is unknown."""
    lossy = in_workers(pipeline.batch(4, drop_remainder=True), 3)
    assert by_intent(lossy, LOSS) == (severity, severity)
    finding = only(LOSS, lint(lossy))
    assert re.search(r"up to 9\b.* 3$", finding.message)
    call = ".batch(batch_size=4, drop_remainder=False)"
    assert call in finding.fix


def test_only_elements_divided_by_position_are_counted() -> None:
    """For sequential slices and for threads, only an upper bound is known."""
    lossy = source(11).repeat(2).to_iter_dataset(NO_THREADS).batch(4, drop_remainder=True)
    shared = X.multithread_prefetch(lossy, num_threads=2, buffer_size=1)
    for pipeline in (in_workers(lossy, sequential_slice=True), shared):
        assert "up to 6 elements" in only(LOSS, lint(pipeline)).message
    assert "6 of 22 elements" in only(LOSS, lint(in_workers(lossy))).message


def test_a_data_loader_of_one_epoch_loses_data() -> None:
    """The sampler counts the elements, and the fix is written with the DataLoader's arguments."""
    lossy = loader(grain.transforms.Batch(4, drop_remainder=True), workers=2, num_epochs=1)
    finding = only(LOSS, lint(lossy))
    assert finding.severity == "error"
    assert re.search(r"6 of 22\b.* drops 2\b", finding.message)
    assert "IndexSampler(num_epochs=None)" in finding.fix


# ---- Classes that are not known


class Pairs(grain.IterDataset):  # type: ignore[misc]  # no types
    """A class of the user's own."""

    def __iter__(self) -> Any:
        """Fail the test."""
        raise AssertionError("it was read")


def test_a_class_that_is_not_known_is_undecided() -> None:
    """An unknown class is info for both intents, with the way to find out; not in one process."""
    pipeline = in_workers(Pairs(elements()))
    assert by_intent(pipeline, ORDER) == ("info", "info")
    finding = only(ORDER, lint(pipeline))
    assert "Pairs" in finding.message
    assert "--prove" in finding.fix
    assert by_intent(Pairs(elements()), ORDER) == (None, None)
    assert by_intent(in_workers(Pairs(elements()).batch(4)), ORDER) == ("info", "error")


def test_files_below_an_interleave_are_not_shared_out() -> None:
    """The workers divide the interleaved datasets."""
    files = [X.ParquetIterDataset(file) for file in parquet_files()]
    report = lint(in_workers(X.InterleaveIterDataset(files, cycle_length=2)))
    assert kinds_of(only(ORDER, report), report) == ["ProcessPrefetch", "Interleave"]


def test_equal_findings_of_many_branches_are_one() -> None:
    """The finding names the nodes of all branches."""
    branches = [in_workers(elements(22).batch(4, drop_remainder=True)) for _ in range(5)]
    report = lint(grain.IterDataset.mix(branches))
    assert len(only(LOSS, report).nodes) == len(only(ORDER, report).nodes) == 10
