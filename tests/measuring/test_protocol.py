"""The protocol's measurement, on a clock that only the loader and the step move."""

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import chain, count, cycle, repeat
from operator import add, truediv
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.errors import LoaderEndedError, MisuseError
from netpipe.jobs import processes
from netpipe.jobs.processes import ProcessTree
from netpipe.measuring import protocol
from netpipe.results.start_up import StartUp
from netpipe.results.units import format_percent
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import VerdictKind
from tests.fakes import FakeClock
from tests.measurements import EMULATED, HOST
from tests.measuring.conftest import LOAD_S, STEP_S, FakeReference, Rehearse
from tests.measuring.simulated import BATCH, paced


def test_every_quantity_is_measured_correctly(clock: FakeClock, rehearse: Rehearse) -> None:
    """The times and ratios are those of the loader and the step; every series has all rounds."""
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
    # The loop loads and computes in turns.
    assert found.train_s_per_step.median == pytest.approx(LOAD_S + STEP_S)
    assert found.accelerator_utilisation.median == pytest.approx(0.75)
    assert found.stall_fraction.median == pytest.approx(0.25)
    # This step is done before the next one is dispatched, which voids the probe.
    assert found.sync_probe_idle_fraction == 1.0
    assert {len(values) for values in asdict(found.rounds).values() if values} == {found.step_s.n}
    assert (found.step_loaded_s, found.rounds.step_loaded_s) == (None, ())
    assert found.train_s_per_step.n == found.headroom.n == found.step_s.n >= 6
    assert found.fingerprint == "data-1 config-1"
    assert (found.device.count, found.host, found.versions) == (1, HOST, {"jax": "1"})
    assert found.batch_bytes == BATCH["x"].nbytes


def test_a_loader_that_keeps_to_some_cores_is_of_the_same_host(
    rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host and the versions are those before the start of the loader."""

    def pinned() -> Iterator[float]:
        monkeypatch.setattr(protocol, "this_host", lambda: replace(HOST, cores=1))
        monkeypatch.setattr(protocol, "installed_versions", lambda: {"jax": "2"})
        yield from repeat(LOAD_S)

    found = rehearse(pinned())
    assert (found.host, found.versions) == (HOST, {"jax": "1"})


def test_the_cost_is_that_of_all_turns(rehearse: Rehearse, references: list[FakeReference]) -> None:
    """The ratio to the named reference is the median over blocks of turns, with their interval."""
    found = rehearse()
    (reference_loader,) = references
    assert found.calibration == "fake, 0 workers"
    assert set(reference_loader.ignored) == {reference_loader.processes.pids}
    assert reference_loader.closed
    load = [turns.load_cpu_s_per_batch for turns in found.turns]
    reference = [turns.reference_cpu_s_per_batch for turns in found.turns]
    assert load[:2] == [0.006, 0.006]
    assert reference[:2] == [0.006, 0.003]
    ratio = found.load_cpu_ratio
    assert ratio.median == pytest.approx(median(map(truediv, load, reference)))
    assert ratio.low < ratio.median < ratio.high
    assert ratio.n == len(found.turns) >= 6


def test_a_loader_that_ends_is_a_finding(rehearse: Rehearse) -> None:
    """A finite loader is measured without its starts, with a finding."""
    found = rehearse([3.0] + [LOAD_S] * 50)
    assert next(finding.name for finding in found.findings) == "loader-restarted"
    assert found.rounds.load_s_per_batch == pytest.approx([LOAD_S] * found.step_s.n)
    assert found.wait_s.p99 == pytest.approx(LOAD_S)


def test_a_slow_start_is_a_finding(clock: FakeClock, rehearse: Rehearse) -> None:
    """It has the seconds of the slowest start, and the largest part of the first one."""
    starts_s = iter([(12.0, 3.0), (60.0, 2.0), *[(1.0, 1.0)] * 1000])

    def loader() -> Iterator[Any]:
        making_s, first_s = next(starts_s)
        clock.sleep(making_s)
        return paced(clock, [first_s, *[LOAD_S] * 249], BATCH)

    found = rehearse(loader=loader).findings
    assert [finding.name for finding in found] == ["slow-start", "loader-restarted"]
    assert re.search(r"took 62 s.* loader\(\), 12 of 15 s: .*index", found[0].message)


def test_the_parts_of_the_first_start_are_recorded(clock: FakeClock, rehearse: Rehearse) -> None:
    """A slow import alone is a slow start; the rest holds the first batch."""

    def loader() -> Iterator[Any]:
        clock.sleep(1.0)
        return paced(clock, chain([2.0 + LOAD_S], repeat(LOAD_S)), BATCH)

    found = rehearse(loader=loader, import_s=8.0)
    assert found.start_up is not None
    assert vars(found.start_up) == pytest.approx(vars(StartUp(1.0, 2.0 + LOAD_S, 8.0)))
    assert found.first_batch_s == pytest.approx(3.0 + LOAD_S)
    (finding,) = found.findings
    assert finding.name == "slow-start"
    assert "imports, 8 of 11 s" in finding.message
    assert rehearse(loader=loader).findings == ()


@pytest.mark.parametrize(
    ("busy", "cpu_s", "name"),
    [
        (0.9, 1.0, "start-not-judged"),
        (1.0, 0.0, "start-not-judged"),
        (0.01, 100.0, "slow-start"),
        (0.5, 2.5, "start-not-judged"),
        (0.5, 1.5, "slow-start"),
    ],
)
def test_a_slow_start_on_a_busy_host_is_not_judged(
    rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch, busy: float, cpu_s: float, name: str
) -> None:
    """The start counts as slow only if it would be slow without the other programs."""
    monkeypatch.setattr(processes, "busy_elsewhere_fraction", lambda *_: busy)
    monkeypatch.setattr(processes.ProcessTree, "cpu_s", lambda _: cpu_s)
    found = {finding.name: finding.message for finding in rehearse(import_s=12.0).findings}
    assert set(found) == {name}
    taken = f"took {format_percent(busy)} of the host's CPU time"
    assert name == "slow-start" or taken in found[name]


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
    """CPU use before the rounds does not count; torch may have ended idle workers already."""

    class Loader:
        num_workers = wanted

        def __iter__(self) -> Iterator[Any]:
            return paced(clock, repeat(LOAD_S), BATCH)

    before_s = [1.0, 2.0, 0.5, 0.0]
    looks = chain([before_s], repeat([*map(add, before_s, used_s)]))
    monkeypatch.setattr(ProcessTree, "workers", property(lambda _: 0))
    monkeypatch.setattr(ProcessTree, "worker_cpu_s", lambda _: dict(enumerate(next(looks))))
    findings = rehearse(loader=Loader).findings
    found = [finding for finding in findings if finding.name == "idle-workers"]
    assert [finding.message.partition(" did")[0] for finding in found] == ([idle] if idle else [])


@pytest.mark.parametrize("batches", [20, 46, 150])
def test_no_start_falls_into_a_timed_window(rehearse: Rehearse, batches: int) -> None:
    """A short epoch is measured within epochs, and the loader starts between them."""
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
    """A window that contains the end of a shorter epoch is measured again."""
    lengths = cycle([300, 61, 107])

    def loader() -> Iterator[Any]:
        return paced(clock, [3.0 + LOAD_S, *[LOAD_S] * (next(lengths) - 1)], BATCH)

    found = rehearse(loader=loader, budget_s=60.0)
    assert found.within_epochs
    assert found.rounds.train_s_per_step == pytest.approx([LOAD_S + STEP_S] * found.step_s.n)


@pytest.mark.parametrize("batches", [1, 4])
def test_an_epoch_too_short_to_measure_is_inconclusive(
    clock: FakeClock, rehearse: Rehearse, batches: int
) -> None:
    """If no window fits into an epoch, one round is enough for the reason and a way out."""
    found = rehearse([0.5] + [LOAD_S] * (batches - 1), budget_s=60.0)
    assert (found.within_epochs, found.step_s.n) == (False, 1)
    assert clock() < 60.0
    assert "inside" in found.findings[0].message
    verdict = judge(found)
    assert verdict.kind is VerdictKind.INCONCLUSIVE
    assert f" {batches} batches" in verdict.message
    unjudged = next(each for each in found.findings if each.name == "growth-not-judged")
    assert "let the loader go on (repeat)" in unjudged.message
    assert "budget" not in unjudged.message


def test_a_loader_that_ends_for_good_leaves_whole_rounds(
    clock: FakeClock, rehearse: Rehearse
) -> None:
    """The complete rounds are measured, with a finding."""
    numbers = count()
    whole = rehearse(LOAD_S for _ in numbers)
    only = paced(clock, [LOAD_S] * (next(numbers) // 2), BATCH)
    found = rehearse(loader=lambda: only)
    assert next(finding.name for finding in found.findings) == "loader-ended"
    assert 1 <= found.step_s.n < whole.step_s.n
    assert {len(values) for values in asdict(found.rounds).values() if values} == {found.step_s.n}


def test_a_loader_that_ends_before_a_round_is_refused(rehearse: Rehearse) -> None:
    """There is no measurement without a complete round."""
    only = iter([BATCH] * 50)
    with pytest.raises(LoaderEndedError, match="ended after 50 batches"):
        rehearse(loader=lambda: only)


def test_the_kind_of_an_emulated_device_is_in_the_fingerprint(rehearse: Rehearse) -> None:
    """The kind of an emulated device is part of the fingerprint."""
    emulated = replace(EMULATED, kind="emulated:h100, 3 TFLOP")
    found = rehearse(fingerprint="data-1", device=emulated)
    assert found.fingerprint == "data-1 emulated:h100, 3 TFLOP"


@pytest.mark.parametrize("rows", [(0, 0), (0, 2), (2, 0)])
def test_an_empty_batch_is_noticed(
    clock: FakeClock, rehearse: Rehearse, rows: tuple[int, int]
) -> None:
    """One empty batch among the first gives a measurement of 0 bytes."""

    def loader() -> Iterator[Any]:
        for number in cycle(rows):
            clock.sleep(LOAD_S)
            yield {"x": np.zeros((number, 3), np.int32)}

    assert rehearse(loader=loader).batch_bytes == 0


def test_compilations_in_the_rounds_are_counted(clock: FakeClock, rehearse: Rehearse) -> None:
    """Compilations after the warm-up are counted."""
    calls = iter(range(1, 1_000_000))

    def step(state: int, _: Any) -> tuple[int, Any]:
        clock.sleep(STEP_S)
        number = next(calls)
        shape = number if number % 3 == 0 else 1
        return state, {"loss": jax.jit(jnp.sum)(np.zeros(shape, np.float32))}

    assert rehearse(step=lambda: (0, step), budget_s=2.0).compilations > 0


def test_the_loader_is_closed_in_any_case(rehearse: Rehearse) -> None:
    """The loader's workers end with the measurement, even if the step is unsuitable."""
    closed: list[bool] = []

    def loader() -> Iterator[Any]:
        try:
            yield from repeat(BATCH)
        finally:
            closed.append(True)

    running = loader()  # Python would close one without a reference
    with pytest.raises(MisuseError, match=r"\(state, step\)"):
        rehearse(loader=lambda: running, step=lambda: None)
    assert closed == [True]


def test_the_reference_is_stopped_in_any_case(
    rehearse: Rehearse, references: list[FakeReference]
) -> None:
    """The reference's workers end with the measurement, even if the loop fails in a round."""

    def failing_loop(*_: Any) -> None:
        raise MisuseError("no loop")

    with pytest.raises(MisuseError, match="no loop"):
        rehearse(loop=failing_loop)
    assert all(reference.closed for reference in references)
