"""A diagnosis never contradicts itself: constructed inputs, and the whole document of each."""

from collections.abc import Iterable
from math import log
from typing import Any

import numpy as np
import pytest

from netpipe.clock import MonotonicClock
from netpipe.diagnosis import investigation, single_thread_run
from netpipe.diagnosis.blocks import Block
from netpipe.diagnosis.diagnose import compose_diagnosis
from netpipe.diagnosis.diagnosis import MIN_EFFECT_FRACTION, Diagnosis, Intervention
from netpipe.diagnosis.investigation import Investigation
from netpipe.diagnosis.turns import SideBlocks
from netpipe.jobs.heartbeat import UNWATCHED
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.reporting.diagnosis_tables import closing
from netpipe.results.measurement import Interval
from netpipe.results.units import format_seconds
from tests.diagnosis import loaders
from tests.diagnosis.examples import LINT, block, investigation_request, stage_time
from tests.measurements import make_measurement

OF_ONE_THREAD = ("single-thread", "two-threads", "two-processes", "without-stage")
OF_THE_LOADER = ("tiny-payload", "half-the-cores")
SEEDS = range(60)


def drawn(generator: np.random.Generator, sides: Iterable[str], working: float) -> SideBlocks:
    """Return rounds of sides whose times are drawn by lot, from nearly exact to useless ones."""
    spread = generator.choice([0.002, 0.05, 0.5])
    typical = {side: 0.02 * float(generator.choice([0.4, 0.5, 1.0, 1.0, 1.9])) for side in sides}
    blocks: dict[str, list[Block]] = {side: [] for side in typical}
    for _ in range(int(generator.integers(1, 6))):
        times = {
            side: s * float(np.exp(generator.normal(0, spread))) for side, s in typical.items()
        }
        read = float(generator.choice([0.0, 3e6]))
        for side, s in times.items():
            blocks[side].append(block(s, max(1e-6, working * s), read_bytes_per_batch=read))
    return SideBlocks(blocks)


def diagnosed(seed: int, monkeypatch: pytest.MonkeyPatch, *, with_step: bool) -> Diagnosis:
    """Return the diagnosis of a loader of which all that is measured is drawn by lot."""
    generator = np.random.default_rng(seed)
    working = float(generator.choice([0.1, 1.0]))
    times = (stage_time("Map of f", 0.03, 0.03 * working), stage_time("Source", 0.01))
    monkeypatch.setattr(single_thread_run, "measure_stage_times", lambda *_: times)
    for name, sides in (
        ("compare_disk_with_cache", ("from-disk", "cached-bytes")),
        ("measure_scaling", OF_ONE_THREAD),
    ):
        monkeypatch.setattr(
            single_thread_run.SingleThreadRun,
            name,
            lambda *_, sides=sides: drawn(generator, sides, working),
        )
    monkeypatch.setattr(
        investigation, "measure_in_turns", lambda sides, *_: drawn(generator, sides, working)
    )
    measurement = make_measurement(load_s=0.0406) if with_step else None
    load_s = measurement.load_s_per_batch if measurement else None
    request = investigation_request(step_s=0.02, load_s=load_s)
    looking = Investigation(loaders.plain, request, 2, MonotonicClock(), UNWATCHED)
    found: dict[str, Any] = {"findings": looking.run().to_document(), "flops_per_step": 1e12}
    return compose_diagnosis(found, measurement, LINT, MeasureRequest())


def made(found: Diagnosis, name: str) -> Intervention:
    """Return the intervention of a name."""
    return next(change for change in found.findings.interventions if change.name == name)


def excludes_no_difference(ratio: Interval | None) -> bool:
    """Whether an interval lies on one side of 1."""
    assert ratio is not None
    return ratio.low > 1 + MIN_EFFECT_FRACTION or ratio.high < 1 / (1 + MIN_EFFECT_FRACTION)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("with_step", [False, True], ids=["alone", "step"])
def test_every_quantity_has_one_figure(
    seed: int, with_step: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader as it is, the single-thread run and each change have one figure everywhere."""
    found = diagnosed(seed, monkeypatch, with_step=with_step)
    findings = found.findings
    loads: list[Interval | None] = [findings.load_s_per_batch]
    loads += [
        change.before_s_per_batch
        for change in findings.interventions
        if change.name in OF_THE_LOADER
    ]
    if found.measurement is not None:
        loads.append(found.measurement.load_s_per_batch)
    if findings.verified is not None:
        tried = findings.verified
        loads.append(tried.before_s_per_batch)
        (foreseen,) = (guess for guess in findings.what_if if guess.change == tried.change)
        assert tried.predicted_s_per_batch == foreseen.load_s_per_batch
        assert format_seconds(foreseen.load_s_per_batch.median) in closing(findings)
        assert f"tried: {format_seconds(tried.measured_s_per_batch.median)}" in found.sentence
        assert f"instead of {format_seconds(findings.load_s_per_batch.median)}" in found.sentence
    assert set(loads) == {findings.load_s_per_batch}
    for name in ("two-threads", "two-processes", "without-stage"):
        assert made(found, name).before_s_per_batch == findings.lane_s_per_batch
    assert findings.stages[0].without_s_per_batch == made(found, "without-stage").after_s_per_batch
    for change in findings.interventions:
        if change.speedup is not None and change.before_s_per_batch and change.after_s_per_batch:
            gained = change.before_s_per_batch.median / change.after_s_per_batch.median
            assert gained == pytest.approx(change.speedup.median)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_named_resource_has_a_clear_effect(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the interval of its effect includes no difference, no cause is named."""
    found = diagnosed(seed, monkeypatch, with_step=False)
    bottleneck = found.findings.bottleneck
    threads, processes = (made(found, name).speedup for name in ("two-threads", "two-processes"))
    assert processes is not None
    named = bottleneck.resource
    if named in ("gil", "memory"):
        assert excludes_no_difference(processes)
    elif named == "cpu":
        assert excludes_no_difference(threads) or processes.high < 2
    elif named in ("disk", "waiting"):
        assert found.findings.lane_s_per_batch.n > 1
    else:
        assert named == "unknown"
        assert bottleneck.why.startswith("no clear cause; ")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_clearest_effect_leads(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stands first in the table and in the sentence; an unclear effect is called that."""
    found = diagnosed(seed, monkeypatch, with_step=False)
    factors = []
    for change in found.findings.interventions:
        clear = change.speedup is not None and excludes_no_difference(change.speedup)
        assert (
            clear
            is (change.clear_factor > 0)
            is ("no clear" not in change.says and change.speedup is not None)
        )
        factors.append(change.clear_factor)
        if clear and change.speedup is not None:
            nearest = min(abs(log(change.speedup.low)), abs(log(change.speedup.high)))
            assert log(change.clear_factor) == pytest.approx(nearest)
    assert factors == sorted(factors, reverse=True)
    first = found.findings.interventions[0]
    assert (first.effect in found.sentence) is (first.clear_factor > 0)


def test_the_causes_drawn_by_lot_are_various(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cause is named for some of the inputs, and so is none."""
    resources = set()
    for seed in SEEDS:
        found = diagnosed(seed, monkeypatch, with_step=False)
        resources.add(found.findings.bottleneck.resource)
    assert resources >= {"gil", "cpu", "disk", "waiting", "unknown"}
