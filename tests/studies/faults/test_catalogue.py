"""The catalogue has enough cases, draws their values, and can build each of them."""

import json
import pickle
from collections.abc import Iterator
from itertools import islice
from typing import Any

import grain
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.device.emulated_names import parse_accelerator
from perf_tests.studies.faults import leaks, subject
from perf_tests.studies.faults.batches import Batch
from perf_tests.studies.faults.cases import Case, Range
from perf_tests.studies.faults.catalogue import CASES, find, select_cases
from perf_tests.studies.faults.delays import Steady, compute
from perf_tests.studies.faults.grain_loaders import Stages, Transform

FAULTS = [case for case in CASES if not case.is_control]
CONTROLS = [case for case in CASES if case.is_control]
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


def test_there_are_enough_of_each() -> None:
    """The catalogue has at least 24 faults and 8 controls with distinct names."""
    assert len(FAULTS) >= 24
    assert len(CONTROLS) >= 8
    assert len({case.name for case in CASES}) == len(CASES)


@every_case
def test_a_case_expects_something_and_says_why_when_it_is_not_one_thing(case: Case) -> None:
    """A case names a verdict or a finding, and gives a reason if it accepts two."""
    assert case.kinds or case.finding
    assert case.why or len(case.expected.split(" or ")) == 1
    assert case.finding or not case.names


@every_case
def test_what_is_drawn_lies_in_its_range(case: Case) -> None:
    """Every drawn value is within its range, and whole if required."""
    for seed in range(50):
        for name, value in case.draw(seed).items():
            drawn = case.ranges[name]
            assert drawn.low <= value <= drawn.high
            assert not drawn.whole or value == int(value)


def test_drawing_follows_the_seed() -> None:
    """Values depend on seed and case alone."""
    case, other = find("slow-source"), find("slow-collate")
    assert case.draw(7) == case.draw(7)
    assert case.draw(7) != case.draw(8)
    assert case.ranges == other.ranges
    assert case.draw(7) != other.draw(7)


def test_values_survive_json() -> None:
    """A session reads the values that were drawn and printed."""
    drawn = {case.name: case.draw(3) for case in CASES}
    assert json.loads(json.dumps(drawn)) == drawn
    assert f"{drawn['slow-source']['step_s']:g}" == str(drawn["slow-source"]["step_s"])


def test_a_range_runs_upwards() -> None:
    """A range with swapped ends is refused."""
    with pytest.raises(AssertionError, match=r"low .* high"):
        Range(2.0, 1.0)


@every_case
def test_an_accelerator_can_be_read(case: Case) -> None:
    """A clock with the step's time replaces every step except the real ones."""
    values = case.draw(1)
    emulated = parse_accelerator(case.accelerator(values))
    if case.step:
        assert emulated is None
    else:
        assert emulated is not None
        assert emulated.set_step_s == pytest.approx(values["step_s"], rel=1e-3)


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


def test_workers_get_what_they_run_by_reference() -> None:
    """Everything that a Grain worker runs can be sent to another process."""
    transform = Transform(Steady(0.0), compute)
    assert pickle.loads(pickle.dumps(transform)) == transform
    assert pickle.loads(pickle.dumps(Stages(read=Steady(1.0)))) == Stages(read=Steady(1.0))


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
