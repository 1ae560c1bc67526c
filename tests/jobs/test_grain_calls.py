"""Calls that Grain does not have: what to write instead, with the line of the call."""

import gc
import inspect
import re
from collections.abc import Callable
from typing import Any, Final

import grain
import pytest

from netpipe.grain_access.worker_start import let_grain_start_workers
from netpipe.jobs.failure import format_failure

KINDS: Final = (grain.MapDataset, grain.IterDataset, grain.DataLoader)
WORKERS: Final = grain.MultiprocessingOptions(num_workers=2)
X: Final = grain.experimental
ON_MAP_DATASET: Final = "write it on a grain.MapDataset, before .to_iter_dataset(...)"


class OfAnotherLibrary:
    """A package with a class of the same name."""

    class DataLoader:
        """A class without methods."""


def batches() -> Any:
    """A MapDataset that was batched."""
    return grain.MapDataset.range(64).batch(8)


def stream() -> Any:
    """Its IterDataset."""
    return batches().to_iter_dataset(grain.ReadOptions(num_threads=0))


def loader(**settings: Any) -> Any:
    """A DataLoader."""
    sampler = grain.samplers.IndexSampler(num_records=64, seed=0)
    return grain.DataLoader(data_source=range(64), sampler=sampler, **settings)


def picked() -> Any:
    """The options that Grain proposes for a pipeline."""
    limits = {"ram_budget_mb": 64, "max_workers": 2, "max_buffer_size": 2}
    return X.pick_performance_config(stream(), **limits)


def failure(call: Callable[[], Any]) -> list[str]:
    """Return the lines of the failure of a call; its code is this file's."""
    let_grain_start_workers()
    with pytest.raises(Exception) as caught:  # noqa: PT011  # the text is the test's
        call()
    return format_failure(caught.value).splitlines()


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (
            lambda: batches().mp_prefetch(WORKERS),
            "write .to_iter_dataset(grain.ReadOptions(num_threads=0)).mp_prefetch(...)",
        ),
        (
            lambda: batches().prefetch(WORKERS),
            "write .to_iter_dataset(grain.ReadOptions(num_threads=0)).mp_prefetch(...)",
        ),
        (
            lambda: stream().mp_prefetch(picked()),
            "write .mp_prefetch(config.multiprocessing_options)",
        ),
        (
            lambda: grain.config.update(py_debug_mode=True),
            'write grain.config.update("py_debug_mode", ...)',
        ),
        (
            lambda: stream().mp_prefetch(num_workers=2),
            "write .mp_prefetch(grain.MultiprocessingOptions(num_workers=2))",
        ),
        (lambda: stream()[:9], ON_MAP_DATASET),
        (lambda: len(stream()), ON_MAP_DATASET),
        (lambda: stream().shuffle(seed=1), ON_MAP_DATASET),
        (lambda: stream().repeat(), ON_MAP_DATASET),
        (lambda: loader(num_workers=2), "write worker_count=2"),
        (lambda: loader().mp_prefetch(WORKERS), "write worker_count=2 in grain.DataLoader(...)"),
        (lambda: loader().batch(8), "write a class of grain.transforms in operations=[...] of"),
        (lambda: loader().shuffle(), "write sampler=grain.samplers.IndexSampler(..., shuffle=True"),
        (lambda: loader().to_iter_dataset(), "leave .to_iter_dataset(...) out"),
        (lambda: grain.IterDataset.range(9), ON_MAP_DATASET),
    ],
)
def test_a_call_that_grain_does_not_have_is_answered(call: Callable[[], Any], advice: str) -> None:
    """The first line says what failed and what to write; the user's line comes below it."""
    first, *frames = failure(call)
    assert re.match(r"(AttributeError|TypeError): \S", first)
    assert f"; {advice}" in first
    assert f'  File "{__file__}", line {call.__code__.co_firstlineno}, in <lambda>' in frames


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_setting_that_fails_at_the_first_batch_is_answered() -> None:
    """Grain accepts the call, and does not name the setting when it fails."""
    first = failure(lambda: next(iter(batches().to_iter_dataset(picked()))))[0]
    assert "; write .to_iter_dataset(config.read_options)" in first
    gc.collect()  # Grain's iterator raises again when it is collected.


def test_a_folder_for_drawings_is_answered() -> None:
    """Grain draws into its log only."""
    let_grain_start_workers()
    setting = "py_dataset_visualization_output_dir"
    before = getattr(grain.config, setting)
    grain.config.update(setting, "/a/folder")
    try:
        assert "--svg FILE" in failure(lambda: next(iter(stream())))[0]
    finally:
        grain.config.update(setting, before)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("Worker process was terminated unexpectedly with exit code -9. Search"),
        MemoryError("Unable to allocate 40 GiB"),
    ],
    ids=["worker", "numpy"],
)
def test_too_little_memory_names_the_settings_to_lower(error: Exception) -> None:
    """A worker that the kernel killed, and an array that does not fit."""
    first = format_failure(error).splitlines()[0]
    assert (
        "; memory may have run out: lower per_worker_buffer_size, worker_buffer_size or " in first
    )


def methods_of_one() -> list[tuple[type, str]]:
    """Return each public method that a class of Grain lacks and another one has."""
    names = {name for kind in KINDS for name in dir(kind) if not name.startswith("_")}
    return [
        (kind, name)
        for kind in KINDS
        for name in sorted(names - set(dir(kind)))
        if any(inspect.isfunction(getattr(other, name, None)) for other in KINDS)
    ]


@pytest.mark.parametrize(("kind", "name"), methods_of_one())
def test_every_method_that_only_another_class_has_is_answered(kind: type, name: str) -> None:
    """Methods that a new release of Grain adds are covered too: this test names them."""
    owner = {grain.MapDataset: batches, grain.IterDataset: stream, grain.DataLoader: loader}[kind]
    first = failure(lambda: getattr(owner(), name))[0]
    assert re.search(r"; (write|leave) ", first)


@pytest.mark.parametrize(
    "call",
    [
        lambda: batches().take(3),
        lambda: object().mp_prefetch(2),  # type: ignore[attr-defined]
        lambda: [].num_workers,  # type: ignore[attr-defined]
        lambda: OfAnotherLibrary.DataLoader().batch(3),  # type: ignore[attr-defined]
        lambda: len(3),  # type: ignore[arg-type]
        lambda: grain.ReadOptions(num_threads=-1),
    ],
)
def test_other_errors_are_left_as_they_are(call: Callable[[], Any]) -> None:
    """Only calls of Grain get advice."""
    first = failure(call)[0]
    assert "write" not in first
    assert ";" not in first
