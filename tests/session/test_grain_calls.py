"""Calls that Grain does not have: what to write instead, with the line of the call."""

import gc
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import grain
import pytest

from netpipe.grain_workers import let_grain_start_workers
from netpipe.session.failure import format_failure

KINDS: Final = (grain.MapDataset, grain.IterDataset, grain.DataLoader)
WORKERS: Final = grain.MultiprocessingOptions(num_workers=2)
X: Final = grain.experimental


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


def headline(call: Callable[[], Any]) -> str:
    """Return the first line of the failure of a call; its lines are those of this file."""
    let_grain_start_workers()
    with pytest.raises(Exception) as caught:  # noqa: PT011  # the text is the test's
        call()
    return format_failure(caught.value).splitlines()[0]


def line_of(call: Callable[[], Any]) -> str:
    """Return the line of a lambda, as file:line."""
    file = Path(__file__).relative_to(Path.cwd())
    return f"{file}:{call.__code__.co_firstlineno}"


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
        (
            lambda: stream().mp_prefetch(2),
            "write .mp_prefetch(grain.MultiprocessingOptions(num_workers=2))",
        ),
        (
            lambda: batches().to_iter_dataset(num_threads=0),
            "write .to_iter_dataset(grain.ReadOptions(num_threads=0))",
        ),
        (lambda: stream()[:9], "write it before .to_iter_dataset(...), or"),
        (lambda: len(stream()), "write it before .to_iter_dataset(...)"),
        (lambda: stream().shuffle(seed=1), "write it before .to_iter_dataset(...), or"),
        (lambda: stream().repeat(), "write it before .to_iter_dataset(...), or"),
        (lambda: loader(num_workers=2), "write worker_count=2"),
        (lambda: loader().mp_prefetch(WORKERS), "write worker_count=2 in grain.DataLoader(...)"),
        (lambda: loader().batch(8), "write a class of grain.transforms in operations=[...] of"),
        (lambda: loader().shuffle(), "write sampler=grain.samplers.IndexSampler(..., shuffle=True"),
        (lambda: loader().to_iter_dataset(), "leave .to_iter_dataset(...) out"),
        (lambda: grain.IterDataset.range(9), "write grain.MapDataset.range(...)"),
    ],
)
def test_a_call_that_grain_does_not_have_is_answered(call: Callable[[], Any], advice: str) -> None:
    """The first line names the user's line, what failed, and what to write."""
    line = headline(call)
    assert re.match(r"(AttributeError|TypeError): \S", line)
    # A frame of a helper in this file may come after that of the lambda.
    at = line_of(call) if "DataLoader.__init__" not in line else f"{Path(__file__).name}:"
    assert f"{at}" in line
    assert f" {advice}" in line


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("iterated", "advice"),
    [
        (
            lambda: stream().mp_prefetch(grain.MultiprocessingOptions(num_workers=-1)),
            "write .mp_prefetch(grain.MultiprocessingOptions(num_workers=2)); netpipe lint shows",
        ),
        (
            lambda: batches().to_iter_dataset(4),
            "write .to_iter_dataset(grain.ReadOptions(num_threads=0))",
        ),
        (
            lambda: batches().to_iter_dataset(picked()),
            "write .to_iter_dataset(config.read_options)",
        ),
    ],
)
def test_a_setting_that_fails_at_the_first_batch_is_answered(
    iterated: Callable[[], Any], advice: str
) -> None:
    """Grain accepts the call, and names neither the setting nor the line when it fails."""
    assert advice in headline(lambda: next(iter(iterated())))
    gc.collect()  # Grain's iterator raises again when it is collected.


def test_a_folder_for_drawings_is_answered() -> None:
    """Grain draws into its log only."""
    let_grain_start_workers()
    setting = "py_dataset_visualization_output_dir"
    before = getattr(grain.config, setting)
    grain.config.update(setting, "/a/folder")
    try:
        assert "--svg FILE" in headline(lambda: next(iter(stream())))
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
    """Also one that a new release of Grain adds: this test names it."""
    owner = {grain.MapDataset: batches, grain.IterDataset: stream, grain.DataLoader: loader}[kind]
    line = headline(lambda: getattr(owner(), name))
    assert re.search(r"; at \S+:\d+ (write|leave) ", line)


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
    """Only calls of Grain are answered."""
    line = headline(call)
    assert "write" not in line
    assert ";" not in line
