"""The effects of interventions, and of the change that was tried."""

from dataclasses import replace

import pytest

from netpipe.diagnosis.conclusions import NOT_MADE, list_interventions, verify
from netpipe.diagnosis.diagnosis import Intervention
from netpipe.diagnosis.experiments.single_thread_run import drop_costly_ablation
from netpipe.diagnosis.experiments.turns import NO_TIME, SideBlocks
from netpipe.diagnosis.what_if import Change
from tests.diagnosis.examples import evidence, in_rounds, interval, stage_time, turns

SCALING = turns(single_thread=0.040, two_threads=0.040, two_processes=0.020, without_stage=0.010)


def show(
    scaling: SideBlocks = SCALING,
    variants: SideBlocks | None = None,
    cores: int = 4,
    stage: str = "Map of f",
) -> dict[str, Intervention]:
    """Return the interventions by their names."""
    measured = evidence(
        times=(stage_time(stage, 0.03),),
        scaling=scaling,
        variants=variants or turns(unmodified=0.010),
        load_s=interval(0.010),
        cores=cores,
    )
    return {made.name: made for made in list_interventions(measured)}


def test_a_change_has_its_times_and_its_speedup() -> None:
    """The speedup is the ratio of the rates, and both times are given."""
    found = show()["two-processes"]
    assert found.before_s_per_batch is not None
    assert found.after_s_per_batch is not None
    assert found.speedup is not None
    assert found.before_s_per_batch.median == pytest.approx(0.040)
    assert found.after_s_per_batch.median == pytest.approx(0.020)
    assert found.speedup.median == pytest.approx(2.0)
    assert found.says == "2.00 times as fast"


@pytest.mark.parametrize("threads_s", [(0.040,) * 3, (0.020, 0.080, 0.040)])
def test_small_and_unclear_effects_are_not_clear(threads_s: tuple[float, ...]) -> None:
    """An effect whose sign changes between rounds is not clear either."""
    found = show(in_rounds(single_thread=(0.040,) * 3, two_threads=threads_s))["two-threads"]
    assert found.clear_factor == 0
    assert found.says.startswith("no clear")


def test_a_change_that_harms_is_slower() -> None:
    """A second thread may take twice the time."""
    found = show(turns(single_thread=0.010, two_threads=0.020))["two-threads"]
    assert found.says == "2.00 times slower"


def test_the_ablated_stage_is_named() -> None:
    """Brackets in its name are text."""
    assert "Map of f[/x]" in show(stage="Map of f[/x]")["without-stage"].what


def test_costly_copies_hide_a_stage() -> None:
    """A run without a stage can only be slower because of the copies of its results."""
    slower = drop_costly_ablation(
        turns(single_thread=0.001, two_threads=0.001, without_stage=0.025)
    )
    assert not slower.has("without-stage")
    found = show(slower)["without-stage"]
    assert found.speedup is None
    assert "copying" in found.says
    for seconds in (0.0005, 0.00101):
        kept = turns(single_thread=0.001, two_threads=0.001, without_stage=seconds)
        assert drop_costly_ablation(kept) is kept


def test_changes_that_do_not_apply_are_missing() -> None:
    """A stage that cannot be left out, and a payload that nothing sends, are not listed."""
    scaling = turns(single_thread=0.040, two_threads=0.040, two_processes=0.020)
    assert set(show(scaling)) == {"two-threads", "two-processes"}


def test_a_failed_change_has_its_reason_and_no_figures() -> None:
    """The reason is the failure of the side, or else of the side to compare with."""
    failed = replace(turns(unmodified=0.010), failures={"tiny-payload": "no shared memory"})
    found = show(variants=failed)["tiny-payload"]
    assert (found.before_s_per_batch, found.after_s_per_batch, found.speedup) == (None, None, None)
    assert "no shared memory" in found.says
    broken = replace(turns(tiny_payload=0.01), failures={"unmodified": "it broke"})
    assert "it broke" in show(variants=broken)["tiny-payload"].says
    unmeasured = show(variants=turns(tiny_payload=0.01))["tiny-payload"]
    assert unmeasured.says == NOT_MADE + NO_TIME


TWO_WORKERS = Change("2 workers", "workers", 0.020)


@pytest.mark.parametrize(
    ("before_s", "after_s", "measured_s", "clear"),
    [(0.040, 0.025, 0.025, True), (0.080, 0.040, 0.020, True), (0.080, 0.079, 0.0395, False)],
    ids=["same machine", "slower machine", "unclear"],
)
def test_a_tried_change_counts_by_its_speedup(
    before_s: float, after_s: float, measured_s: float, clear: bool
) -> None:
    """A machine that has slowed down since does not matter, and an unclear effect is said."""
    load_s, made = interval(0.040), turns(unmodified=before_s, two=after_s)
    made = SideBlocks({**made.blocks, "2 workers": made.blocks["two"]})
    found = verify(TWO_WORKERS, made, load_s)
    assert found.measured_s_per_batch.median == pytest.approx(measured_s)
    assert found.before_s_per_batch == load_s
    assert (found.change, found.kind) == ("2 workers", "workers")
    unclear = "" if clear else ", no clear difference"
    assert found.says == f"2 workers: {1e3 * measured_s:.3g} ms instead of 40 ms{unclear}"
