"""The sentence that a person reads first."""

from dataclasses import replace
from typing import Any

import pytest

from netpipe.diagnosis.diagnosis import Bottleneck, Findings, Prediction, Verification
from netpipe.diagnosis.report import summarize
from netpipe.results.measurement import Device, Interval, Measurement
from netpipe.verdict.decision import judge
from tests.diagnosis.examples import BOTTLENECK, findings, interval
from tests.measurements import make_measurement

H100 = Device("h100-sxm-80gb-x1", "emulated:h100", "emulated")
LOADER_BOUND = make_measurement(load_s=0.040, train_s=0.040, device=H100)
SYNCED = make_measurement(train_s=0.038, sync_probe_fraction=1.0)


def said(
    found: Findings | None = None,
    measurement: Measurement | None = None,
    bottleneck: Bottleneck = BOTTLENECK,
) -> str:
    """Return the sentence."""
    verdict = None if measurement is None else judge(measurement)
    found = replace(found or findings(), bottleneck=bottleneck)
    return summarize(found, measurement, verdict)


def test_a_loader_alone() -> None:
    """Its rate, its stage, the resource with the figures that say so, and what would help."""
    assert said() == (
        "Loads 50 batches/s, 20 ms each. "
        "Stage Map of mine.tokenize holds 71% of loading, bound by the GIL (threads 1 to 2: "
        "+4%, processes 1 to 2: +93%). "
        "Clearest effect: two single-thread runs, each in a process: "
        "1.90 (1.71 to 2.09) times as fast. "
        "3 workers would give 15 ms [13.5, 16.5]; headroom then 1.1 (not tried: there was no time)."
    )


def test_a_fast_loader_has_its_rate_in_plain_digits() -> None:
    """No figure has an exponent."""
    fast = replace(findings(), load_s_per_batch=Interval(0.00093, 0.0009, 0.00096, 9))
    assert said(fast).startswith("Loads 1080 batches/s, 930 us each.")


def test_a_loader_without_workers_loads() -> None:
    """There is no worker whose time a stage could hold."""
    assert "holds 71% of loading," in said(findings(workers=0))


def test_a_loader_that_limits_a_step() -> None:
    """The verdict, the device that is pretended, what it needs and what it gets."""
    assert said(measurement=LOADER_BOUND).startswith(
        "Loader-bound on h100-sxm-80gb-x1 (derived): needs 33.3 batches/s, sustains 25. Stage Map"
    )


def test_a_loader_that_feeds_its_step() -> None:
    """Nothing waits: the stage is the one that would limit first."""
    text = said(measurement=make_measurement())
    assert text.startswith("Healthy on h200-x1: needs 33.3 batches/s, sustains 100. ")
    assert "What would limit it first: stage Map of mine.tokenize holds 71%" in text


def test_a_loop_that_waits_for_results() -> None:
    """Loading has no part in it: what to do next is said instead of a stage."""
    verdict = judge(SYNCED)
    assert verdict.kind == "forced-sync"
    text = said(measurement=SYNCED)
    assert text.startswith("Forced-sync on h200-x1: ")
    assert text.endswith(f"Next: {verdict.next}.")
    assert "tokenize" not in text


def test_copies_to_the_device_that_limit() -> None:
    """Loading has no part in it either."""
    measurement = make_measurement(train_s=0.0330, transfer_s=0.0316)
    text = said(measurement=measurement, bottleneck=Bottleneck(None, "device-transfer", 0.1, "it"))
    assert text.startswith("Transfer-bound on h200-x1: ")
    assert "tokenize" not in text


def test_a_change_that_could_not_be_tried_is_named_once() -> None:
    """The reason follows it, without the change again."""
    found = findings(unverified="3 workers could not be tried: no time was left")
    assert summarize(found, None, None).endswith("headroom then 1.1 (not tried: no time was left).")


def test_what_is_open_is_said_to_be() -> None:
    """An inconclusive verdict is one about loading all the same."""
    text = said(measurement=make_measurement(rounds=2))
    assert text.startswith("Inconclusive on h200-x1: needs")
    assert "Stage Map of mine.tokenize" in text


@pytest.mark.parametrize(
    ("bottleneck", "part"),
    [
        (
            Bottleneck("P", "process-transfer", 0.4, "w"),
            "The transfer between processes holds 40%: w.",
        ),
        (Bottleneck(None, "device-transfer", 0.1, "w"), "The copy to the device limits: w."),
        (Bottleneck(None, "unknown", 0.0, "w"), "No stage stands out: w."),
        (Bottleneck("S", "unknown", 0.9, "no clear cause; w"), "loading; no clear cause; w."),
        (
            Bottleneck("S", "waiting", 0.9, "w"),
            "waiting for storage elsewhere, a lock or a sleep (w)",
        ),
        (Bottleneck("S", "cpu", 0.9, "w"), "bound by the CPU (w)"),
        (Bottleneck("S", "disk", 0.9, "w"), "bound by the disk (w)"),
        (Bottleneck("S", "memory", 0.9, "w"), "bound by the memory that all cores share (w)"),
    ],
    ids=lambda one: one.resource if isinstance(one, Bottleneck) else "",
)
def test_every_resource_has_its_words(bottleneck: Bottleneck, part: str) -> None:
    """What binds is said in words, with the figures behind them."""
    assert part in said(bottleneck=bottleneck)


def foreseen(change: str, kind: str, load_s: float, **more: Any) -> Prediction:
    """Return a prediction."""
    return Prediction(change, kind, interval(load_s), more.get("headroom"))


def test_what_was_tried_is_told_with_its_outcome() -> None:
    """The prediction first, then what was measured, instead of what."""
    tried = Verification(
        "3 workers", "workers", interval(0.015), interval(0.016), interval(0.022), 0, ""
    )
    assert said(findings(verified=tried, unverified="")).endswith(
        "3 workers would give 15 ms [13.5, 16.5]; headroom then 1.1; tried: 16 ms instead of 22 ms."
    )


def test_more_workers_are_told_before_other_changes() -> None:
    """They need no change of the code; without them, the first that helps is told."""
    half = foreseen("batches of half the size", "smaller-batch", 0.010)
    useless = foreseen("4 workers", "workers", 0.0195)
    two = foreseen("6 workers", "workers", 0.012)
    assert "6 workers would give 12 ms" in said(findings(what_if=(half, useless, two)))
    assert "Batches of half the size would give 10 ms" in said(findings(what_if=(useless, half)))


def test_a_change_that_gives_nothing_is_not_told() -> None:
    """Where nothing promises anything, nothing is promised."""
    useless = foreseen("4 workers", "workers", 0.0195)
    assert "would give" not in said(findings(what_if=(useless,)))


def test_a_functions_name_stays_as_it_is() -> None:
    """A sentence begins with a capital, a name as it is written."""
    absent = foreseen("loader > decode at no cost", "without-stage", 0.010)
    assert " loader > decode at no cost would give" in said(findings(what_if=(absent,)))


def test_seconds_are_told_as_seconds() -> None:
    """A slow loader's interval is in seconds, an open one has inf for its end."""
    slow = replace(
        foreseen("4 workers", "workers", 2.0), load_s_per_batch=Interval(2.0, 0, float("inf"), 1)
    )
    text = said(findings(load_s_per_batch=interval(4.0), what_if=(slow,)))
    assert "4 workers would give 2 s [0, inf]" in text
