"""The catalogue has enough cases, draws their values, and can build each of them."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import grain
import jax.numpy as jnp
import numpy as np
import pytest

from perf_tests.studies.faults import subject
from perf_tests.studies.faults.cases import Case
from perf_tests.studies.faults.catalogue import CASES, find, select_cases
from perf_tests.studies.faults.parts import leaks
from perf_tests.studies.faults.parts.batches import Batch

WITH_STEP = [case for case in CASES if case.step]
BATCHES = 3

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def quick(case: Case) -> dict[str, float]:
    """Draw values that take no time."""
    instant = {"step_s": 1e-6, "load_s": 1e-6, "start_s": 0.0, "products": 1, "spare": 1}
    instant |= {"mb_per_batch": 0.01, "shared_mb": 0.01}
    return {name: instant.get(name, value) for name, value in case.draw(0).items()}


def ready_step(state: Any, _: Batch) -> tuple[Any, Any]:
    """Return at once."""
    return state, {"loss": jnp.float32(0.5)}


class PrivateMemory:
    """A fake of shared memory, because real memory would stay."""

    def __init__(self, *, create: bool, size: int) -> None:
        assert create
        self.buf = memoryview(bytearray(size))

    def close(self) -> None:
        """Do nothing."""

    unlink = close


@every_case
def test_a_loader_gives_batches(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every loader gives batches of arrays, each made quickly when no time is planted."""
    monkeypatch.setattr(grain.IterDataset, "mp_prefetch", lambda dataset, _: dataset)
    monkeypatch.setattr(leaks, "SharedMemory", PrivateMemory)
    monkeypatch.setenv("NETPIPE_STORAGES", "")  # set for the processes of a session
    for batch in islice(case.loader(quick(case)), BATCHES):
        assert all(isinstance(leaf, np.ndarray) for leaf in batch.values())


@pytest.mark.parametrize("case", [case for case in CASES if case.loop], ids=lambda case: case.name)
def test_a_loop_takes_every_batch(case: Case) -> None:
    """Every loop calls the step once a batch."""
    assert case.loop is not None
    given: list[int] = []

    def batches() -> Iterator[Batch]:
        for number in range(2 * BATCHES):
            given.append(number)
            yield {}

    def step(state: Any, batch: Batch) -> tuple[Any, Any]:
        assert given
        given.pop()
        return ready_step(state, batch)

    case.loop(quick(case))(batches(), jnp.zeros(()), step)
    assert not given


@pytest.mark.parametrize("case", WITH_STEP, ids=lambda case: case.name)
def test_a_real_step_trains(case: Case) -> None:
    """Every real step gives a state to go on from and a loss that is a number."""
    assert case.step is not None
    values = quick(case)
    state, step = case.step(values)
    for batch in islice(iter([{"tokens": np.zeros((1, n), np.int32)} for n in (4, 5)]), 2):
        state, aux = step(state, batch)
        assert np.isfinite(aux["loss"])


def test_a_session_builds_what_its_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The targets of a session make the loader, the step and the loop of the case named."""
    case = find("fine-on-a-cpu")
    monkeypatch.setenv(subject.VARIABLE, subject.describe(case, quick(case)))
    subject.read_case.cache_clear()
    assert set(next(iter(subject.loader()))) == {"tokens"}
    state, _ = subject.step()
    assert "weights" in state
    case = find("sync-item")
    monkeypatch.setenv(subject.VARIABLE, subject.describe(case, quick(case)))
    subject.read_case.cache_clear()
    subject.loop(iter([{}]), None, ready_step)
    subject.read_case.cache_clear()


def test_patterns_choose_cases() -> None:
    """Globs choose in the catalogue's order, no glob chooses all, and unknown names are refused."""
    assert select_cases([]) == CASES
    assert [case.name for case in select_cases(["at-risk", "slow-s*[ed]"])] == [
        "slow-source",
        "slow-shard",
        "at-risk",
    ]
    families = {case.family for case in select_cases(["slow-start/*", "*/fine-thread"])}
    assert families == {"slow-start", "control"}
    with pytest.raises(ValueError, match=r"'slow-horse'.*at-risk"):
        select_cases(["slow-horse"])
