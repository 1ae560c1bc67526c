"""A diagnosis never contradicts itself, whatever was measured."""

from collections.abc import Iterable
from math import log

import numpy as np
import pytest

from netpipe.clock import Clock
from netpipe.diagnosis import investigation
from netpipe.diagnosis.diagnose import compose_diagnosis
from netpipe.diagnosis.diagnosis import MIN_EFFECT_FRACTION, Diagnosis
from netpipe.diagnosis.experiments import single_thread_run
from netpipe.diagnosis.experiments.pulling_threads import Block
from netpipe.diagnosis.experiments.turns import SideBlocks
from netpipe.diagnosis.investigation import Investigation
from netpipe.jobs.heartbeat import UNWATCHED
from netpipe.reporting.diagnosis_tables import closing
from netpipe.results.measurement import Interval
from netpipe.results.units import format_seconds
from tests.diagnosis import loaders
from tests.diagnosis.examples import LINT, block, investigation_request, stage_time
from tests.measurements import make_measurement

OF_ONE_THREAD = ("single-thread", "two-threads", "two-processes", "without-stage")
OF_THE_LOADER = ("tiny-payload",)
SEEDS = range(60)


def draw_blocks(generator: np.random.Generator, sides: Iterable[str], working: float) -> SideBlocks:
    """Return rounds with random times, from nearly exact to useless ones."""
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


def diagnose(seed: int, monkeypatch: pytest.MonkeyPatch, *, with_step: bool) -> Diagnosis:
    """Return the diagnosis of a loader with random measurements."""
    generator = np.random.default_rng(seed)
    working = float(generator.choice([0.1, 1.0]))
    times = (stage_time("Map of f", 0.03, 0.03 * working), stage_time("Source", 0.01))
    monkeypatch.setattr(single_thread_run, "measure_stage_times", lambda *_: times)
    monkeypatch.setattr(
        single_thread_run.SingleThreadRun,
        "measure_scaling",
        lambda *_: draw_blocks(generator, OF_ONE_THREAD, working),
    )
    monkeypatch.setattr(
        investigation, "measure_in_turns", lambda sides, *_: draw_blocks(generator, sides, working)
    )
    measurement = make_measurement(load_s=0.0406) if with_step else None
    load_s = measurement.load_s_per_batch if measurement else None
    request = investigation_request(step_s=0.02, load_s=load_s)
    made = Investigation(loaders.plain, request, 2, Clock(), UNWATCHED)
    return compose_diagnosis(made.run().to_document(), measurement, LINT)


def is_clear(ratio: Interval | None) -> bool:
    """Return whether an interval lies clearly on one side of 1."""
    assert ratio is not None
    return ratio.low > 1 + MIN_EFFECT_FRACTION or ratio.high < 1 / (1 + MIN_EFFECT_FRACTION)


def check_figures(found: Diagnosis) -> None:
    """Check that the loader, the single-thread run and each change have one figure everywhere."""
    findings, made = (
        found.findings,
        {change.name: change for change in found.findings.interventions},
    )
    loads: set[Interval | None] = {findings.load_s_per_batch}
    loads |= {made[name].before_s_per_batch for name in OF_THE_LOADER if name in made}
    if found.measurement is not None:
        loads.add(found.measurement.load_s_per_batch)
    if (tried := findings.verified) is not None:
        loads.add(tried.before_s_per_batch)
        (predicted,) = (guess for guess in findings.what_if if guess.change == tried.change)
        assert predicted.expected == "faster"
        measured_s, before_s = tried.measured_s_per_batch, findings.load_s_per_batch
        times = f"{format_seconds(measured_s.median)} instead of {format_seconds(before_s.median)}"
        assert times in closing(findings)
        assert f"Tried {tried.change}: {times}" in found.sentence
    assert loads == {findings.load_s_per_batch}
    for name in ("two-threads", "two-processes", "without-stage"):
        assert made[name].before_s_per_batch == findings.lane_s_per_batch
    assert findings.stages[0].without_s_per_batch == made["without-stage"].after_s_per_batch
    for change in made.values():
        if change.speedup is not None and change.before_s_per_batch and change.after_s_per_batch:
            gained = change.before_s_per_batch.median / change.after_s_per_batch.median
            assert gained == pytest.approx(change.speedup.median)


def check_resource(found: Diagnosis) -> None:
    """Check that a named resource has an effect whose interval excludes no difference."""
    speedups = {change.name: change.speedup for change in found.findings.interventions}
    bottleneck, processes = found.findings.bottleneck, speedups["two-processes"]
    assert processes is not None
    if bottleneck.resource in ("gil", "memory"):
        assert is_clear(processes)
    elif bottleneck.resource == "cpu":
        assert is_clear(speedups["two-threads"]) or processes.high < 2
    elif bottleneck.resource in ("disk", "waiting"):
        assert found.findings.lane_s_per_batch.n > 1
    else:
        assert bottleneck.resource == "unknown"
        assert bottleneck.why.startswith("no clear cause; ")


def check_order(found: Diagnosis) -> None:
    """Check that the clearest effect leads the table and is in the sentence, if it is clear."""
    factors = []
    for change in found.findings.interventions:
        clear = change.speedup is not None and is_clear(change.speedup)
        says_so = "no clear" not in change.says and change.speedup is not None
        assert clear is (change.clear_factor > 0) is says_so
        factors.append(change.clear_factor)
        if clear and change.speedup is not None:
            nearest = min(abs(log(change.speedup.low)), abs(log(change.speedup.high)))
            assert log(change.clear_factor) == pytest.approx(nearest)
    assert factors == sorted(factors, reverse=True)
    first = found.findings.interventions[0]
    assert (first.effect in found.sentence) is (first.clear_factor > 0)


def test_a_diagnosis_agrees_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quantities have one figure, resources a clear effect, and all causes occur."""
    resources = set()
    for seed in SEEDS:
        check_figures(diagnose(seed, monkeypatch, with_step=True))
        found = diagnose(seed, monkeypatch, with_step=False)
        check_figures(found)
        check_resource(found)
        check_order(found)
        resources.add(found.findings.bottleneck.resource)
    assert resources >= {"gil", "cpu", "disk", "waiting", "unknown"}
