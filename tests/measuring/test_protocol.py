"""What the protocol makes of its rounds, on a clock that only the loader and the step move."""

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import chain, cycle, islice, repeat
from operator import add, truediv
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.errors import LoaderEndedError, MisuseError
from netpipe.jobs.processes import ProcessTree
from netpipe.measuring import protocol
from netpipe.results.start_up import StartUp
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import VerdictKind
from tests.fakes import FakeClock
from tests.measurements import EMULATED, HOST
from tests.measuring.conftest import BATCH, LOAD_S, STEP_S, FakeReference, Rehearse


def test_every_quantity_is_measured_correctly(clock: FakeClock, rehearse: Rehearse) -> None:
    """Load and step time come out as they went in, and the ratios with them."""
    found = rehearse(fingerprint="data-1 config-1")
    assert found.load_s_per_batch.median == pytest.approx(LOAD_S)
    assert found.step_s.median == pytest.approx(STEP_S)
    assert found.rounds.step_synced_s == pytest.approx([STEP_S] * found.step_s.n)
    assert found.rounds.step_transfer_s == pytest.approx([STEP_S] * found.step_s.n)
    assert found.headroom.median == pytest.approx(STEP_S / LOAD_S)
    assert found.wait_s.p50 == pytest.approx(LOAD_S)
    assert found.wait_s.cv == pytest.approx(0.0, abs=1e-6)
    assert found.first_batch_s == pytest.approx(LOAD_S)
    assert found.elapsed_s == pytest.approx(clock())
    assert found.compilations == 0
    assert (found.drained, found.findings) == (True, ())


def test_the_environment_and_the_fingerprint_are_recorded(rehearse: Rehearse) -> None:
    """What was measured, and where, goes into the measurement as it was given."""
    found = rehearse(fingerprint="data-1 config-1")
    assert found.fingerprint == "data-1 config-1"
    assert (found.device.count, found.host, found.versions) == (1, HOST, {"jax": "1"})
    assert found.batch_bytes == BATCH["x"].nbytes


def test_a_loader_that_keeps_to_some_cores_is_of_the_same_host(
    rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host and the versions are those from before the loader started."""

    def pinned() -> Iterator[float]:
        monkeypatch.setattr(protocol, "this_host", lambda: replace(HOST, cores=1))
        monkeypatch.setattr(protocol, "measured_versions", lambda: {"jax": "2"})
        yield from repeat(LOAD_S)

    found = rehearse(pinned())
    assert (found.host, found.versions) == (HOST, {"jax": "1"})


def test_ratios_belong_to_each_other(rehearse: Rehearse) -> None:
    """A loop that loads and computes in turn waits a quarter of its time, by every ratio."""
    found = rehearse()
    assert found.train_s_per_step.median == pytest.approx(LOAD_S + STEP_S)
    assert found.accelerator_utilisation.median == pytest.approx(0.75)
    assert found.stall_fraction.median == pytest.approx(0.25)


def test_the_cost_is_that_of_all_turns(rehearse: Rehearse) -> None:
    """The ratio to the reference is the median over blocks of turns, with their interval."""
    found = rehearse()
    load = [turns.load_cpu_s_per_batch for turns in found.turns]
    reference = [turns.reference_cpu_s_per_batch for turns in found.turns]
    assert load[:2] == [0.006, 0.006]
    assert reference[:2] == [0.006, 0.003]
    ratio = found.load_cpu_ratio
    assert ratio.median == pytest.approx(median(map(truediv, load, reference)))
    assert ratio.low < ratio.median < ratio.high
    assert ratio.n == len(found.turns) >= 6


def test_the_reference_is_named(rehearse: Rehearse, references: list[FakeReference]) -> None:
    """What the cost was calibrated by is recorded, and its processes are none of the loader's."""
    found = rehearse()
    (reference,) = references
    assert found.calibration == "fake, 0 workers"
    assert set(reference.strangers) == {reference.processes.pids}
    assert reference.closed


def test_a_round_measures_every_quantity_once(rehearse: Rehearse) -> None:
    """All series have one entry a round, as many as every interval says."""
    found = rehearse()
    assert {len(values) for values in asdict(found.rounds).values()} == {found.step_s.n}
    assert found.train_s_per_step.n == found.headroom.n == found.step_s.n >= 6


def test_a_step_that_is_ready_at_once_voids_the_probe(rehearse: Rehearse) -> None:
    """Where steps are done before the next one is asked for, the idle probe says so."""
    assert rehearse().sync_probe_idle_fraction == 1.0


def test_a_loader_that_ends_is_a_finding(rehearse: Rehearse) -> None:
    """A finite loader is measured all the same, its starts left out, with a finding."""
    found = rehearse([3.0] + [LOAD_S] * 50)
    assert next(finding.name for finding in found.findings) == "loader-restarted"
    assert found.rounds.load_s_per_batch == pytest.approx([LOAD_S] * found.step_s.n)
    assert found.wait_s.p99 == pytest.approx(LOAD_S)


def test_a_slow_start_is_a_finding(clock: FakeClock, rehearse: Rehearse) -> None:
    """It has the seconds of the start that took longest, and the largest part of the first."""
    starts_s = iter([(12.0, 3.0), (60.0, 2.0), *[(1.0, 1.0)] * 1000])

    def batches(first_s: float) -> Iterator[Any]:
        for number in range(250):
            clock.sleep(LOAD_S if number else first_s)
            yield BATCH

    def loader() -> Iterator[Any]:
        making_s, first_s = next(starts_s)
        clock.sleep(making_s)
        return batches(first_s)

    found = rehearse(loader=loader).findings
    assert [finding.name for finding in found] == ["slow-start", "loader-restarted"]
    assert re.search(r"took 62 s.* loader\(\), 12 of 15 s: .*index", found[0].message)


def test_the_parts_of_the_first_start_are_recorded(clock: FakeClock, rehearse: Rehearse) -> None:
    """A slow import alone makes a slow start; what a measurement does not see is in the rest."""

    class Loader:
        def __iter__(self) -> Iterator[Any]:
            clock.sleep(2.0)
            while True:
                clock.sleep(LOAD_S)
                yield BATCH

    def loader() -> Loader:
        clock.sleep(1.0)
        return Loader()

    found = rehearse(loader=loader, import_s=8.0)
    assert found.start_up is not None
    assert vars(found.start_up) == pytest.approx(vars(StartUp(1.0, 2.0 + LOAD_S, 8.0)))
    assert found.first_batch_s == pytest.approx(3.0 + LOAD_S)
    (finding,) = found.findings
    assert finding.name == "slow-start"
    assert "imports, 8 of 11 s" in finding.message
    assert rehearse(loader=loader).findings == ()


@pytest.mark.parametrize(
    ("used_s", "wanted", "idle"),
    [
        ([4.0, 0.01, 0.0, 3.0], 0, "2 of 4 worker processes"),
        ([4.0, 3.5, 2.0, 1.0], 0, ""),
        ([4.0, 3.5, 2.0, 1.0], 7, "3 of 7 worker processes"),
        ([0.1, 0.0, 0.0, 0.0], 0, ""),
    ],
)
def test_workers_that_do_nothing_are_a_finding(
    monkeypatch: pytest.MonkeyPatch,
    clock: FakeClock,
    rehearse: Rehearse,
    used_s: list[float],
    wanted: int,
    idle: str,
) -> None:
    """What they used before the rounds does not count; torch may have ended them already."""

    class Loader:
        num_workers = wanted

        def __iter__(self) -> Iterator[Any]:
            while True:
                clock.sleep(LOAD_S)
                yield BATCH

    before_s = [1.0, 2.0, 0.5, 0.0]
    looks = chain([before_s], repeat([*map(add, before_s, used_s)]))
    monkeypatch.setattr(ProcessTree, "workers", property(lambda _: 0))
    monkeypatch.setattr(ProcessTree, "worker_cpu_s", lambda _: dict(enumerate(next(looks))))
    findings = rehearse(loader=Loader).findings
    found = [finding for finding in findings if finding.name == "idle-workers"]
    assert [finding.message.partition(" did")[0] for finding in found] == ([idle] if idle else [])


@pytest.mark.parametrize("batches", [20, 46, 150])
def test_no_start_falls_into_a_timed_window(rehearse: Rehearse, batches: int) -> None:
    """A short epoch is measured within epochs, however often the loader starts between them."""
    found = rehearse([3.0] + [LOAD_S] * (batches - 1), budget_s=60.0)
    assert found.step_s.n >= 3
    assert found.rounds.train_s_per_step == pytest.approx([LOAD_S + STEP_S] * found.step_s.n)
    assert found.rounds.load_s_per_batch == pytest.approx([LOAD_S] * found.step_s.n)
    assert found.stall_fraction.high == pytest.approx(0.25)
    assert found.distributions is not None
    assert found.distributions.train_step_s[100] == pytest.approx(LOAD_S + STEP_S)
    assert (found.epoch_batches, found.within_epochs) == (batches, True)
    (finding,) = found.findings
    assert finding.name == "loader-restarted"
    assert f" {batches} batches" in finding.message
    assert "outside" in finding.message


def test_epochs_may_differ_in_length(clock: FakeClock, rehearse: Rehearse) -> None:
    """A window that an end falls into, sooner than expected, is measured again."""
    lengths = cycle([300, 61, 107])

    def loader() -> Iterator[Any]:
        clock.sleep(3.0)
        for _ in range(next(lengths)):
            clock.sleep(LOAD_S)
            yield BATCH

    found = rehearse(loader=loader, budget_s=60.0)
    assert found.within_epochs
    assert found.rounds.train_s_per_step == pytest.approx([LOAD_S + STEP_S] * found.step_s.n)


@pytest.mark.parametrize("batches", [1, 4])
def test_an_epoch_too_short_to_measure_is_inconclusive(
    clock: FakeClock, rehearse: Rehearse, batches: int
) -> None:
    """No window fits into an epoch: a round is enough to tell the reason and a way out."""
    found = rehearse([0.5] + [LOAD_S] * (batches - 1), budget_s=60.0)
    assert (found.within_epochs, found.step_s.n) == (False, 1)
    assert clock() < 60.0
    assert "inside" in found.findings[0].message
    verdict = judge(found)
    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert f" {batches} batches" in verdict.message


def test_a_loader_that_ends_for_good_leaves_whole_rounds(
    clock: FakeClock, rehearse: Rehearse
) -> None:
    """The rounds before the one in which it ended are measured, with a finding."""
    asked = 0

    def endless() -> Iterator[Any]:
        nonlocal asked
        while True:
            asked += 1
            clock.sleep(LOAD_S)
            yield BATCH

    whole = rehearse(loader=endless)
    only = islice(endless(), asked // 2)
    found = rehearse(loader=lambda: only)
    assert next(finding.name for finding in found.findings) == "loader-ended"
    assert 1 <= found.step_s.n < whole.step_s.n
    assert {len(values) for values in asdict(found.rounds).values()} == {found.step_s.n}


def test_a_loader_that_ends_before_a_round_is_refused(rehearse: Rehearse) -> None:
    """Without one whole round there is nothing to tell."""
    only = iter([BATCH] * 50)
    with pytest.raises(LoaderEndedError, match="ended after 50 batches"):
        rehearse(loader=lambda: only)


def test_the_kind_of_an_emulated_device_is_in_the_fingerprint(rehearse: Rehearse) -> None:
    """An emulated device's own words are part of the fingerprint; a real device's are not."""
    emulated = replace(EMULATED, kind="emulated:h100, 3 TFLOP")
    found = rehearse(fingerprint="data-1", device=emulated)
    assert found.fingerprint == "data-1 emulated:h100, 3 TFLOP"


@pytest.mark.parametrize("rows", [(0, 0), (0, 2), (2, 0)])
def test_an_empty_batch_is_noticed(
    clock: FakeClock, rehearse: Rehearse, rows: tuple[int, int]
) -> None:
    """One empty batch among the first is enough for the measurement to hold 0 bytes."""

    def loader() -> Iterator[Any]:
        for count in cycle(rows):
            clock.sleep(LOAD_S)
            yield {"x": np.zeros((count, 3), np.int32)}

    assert rehearse(loader=loader).batch_bytes == 0


def test_compilations_in_the_rounds_are_counted(clock: FakeClock, rehearse: Rehearse) -> None:
    """A step that goes on compiling after the warm-up has compilations in its rounds."""
    calls = iter(range(1, 1_000_000))

    def step(state: int, _: Any) -> tuple[int, Any]:
        clock.sleep(STEP_S)
        number = next(calls)
        shape = number if number % 3 == 0 else 1
        return state, {"loss": jax.jit(jnp.sum)(np.zeros(shape, np.float32))}

    assert rehearse(step=lambda: (0, step), budget_s=2.0).compilations > 0


def test_the_loader_is_closed_in_any_case(rehearse: Rehearse) -> None:
    """Its workers end with the measurement, also when the step is none."""
    closed: list[bool] = []

    def loader() -> Iterator[Any]:
        try:
            yield from repeat(BATCH)
        finally:
            closed.append(True)

    running = loader()  # held here: one that nobody holds would be closed by Python
    with pytest.raises(MisuseError, match=r"\(state, step\)"):
        rehearse(loader=lambda: running, step=lambda: None)
    assert closed == [True]


def test_the_reference_is_stopped_in_any_case(
    rehearse: Rehearse, references: list[FakeReference]
) -> None:
    """Its workers end with the measurement, also when the loop fails in a round."""

    def failing_loop(*_: Any) -> None:
        raise MisuseError("no loop")

    with pytest.raises(MisuseError, match="no loop"):
        rehearse(loop=failing_loop)
    assert all(reference.closed for reference in references)


def test_the_reference_is_stopped_when_the_step_is_none(
    rehearse: Rehearse, references: list[FakeReference]
) -> None:
    """Where the measurement never begins, no worker of it is left."""
    with pytest.raises(MisuseError, match=r"\(state, step\)"):
        rehearse(step=lambda: None)
    assert all(reference.closed for reference in references)
