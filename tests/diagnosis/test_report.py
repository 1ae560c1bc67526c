"""A diagnosis as text: its summary sentence, and its tables."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from rich.console import Console

from netpipe.diagnosis.conclusions import describe_reads
from netpipe.diagnosis.diagnosis import Bottleneck, Diagnosis, Findings, Need, Prediction, Untried
from netpipe.diagnosis.read_scaling import Read
from netpipe.diagnosis.summary import summarize
from netpipe.diagnosis.turns import NO_TIME
from netpipe.reporting.diagnosis_tables import closing, tables
from netpipe.results.measurement import Device, Interval, Measurement
from netpipe.results.start_up import StartUp
from netpipe.verdict.decision import judge
from tests.diagnosis.examples import (
    BOTTLENECK,
    NAME,
    THREE_WORKERS,
    VERIFIED,
    diagnosis,
    findings,
    interval,
    stage,
)
from tests.diagnosis.made_reads import SLOW_READS, made_read, made_scaling
from tests.measurements import make_measurement

NEED = Need("h200", 0.0101, 98.9, 5, 4.15, 0.51)
H100 = Device("h100-sxm-80gb-x1", "emulated:h100", "emulated")
LOADER_BOUND = make_measurement(load_s=0.040, train_s=0.040, device=H100)


def summary(
    found: Findings | None = None,
    measurement: Measurement | None = None,
    bottleneck: Bottleneck = BOTTLENECK,
) -> str:
    """Return the summary sentence."""
    verdict = None if measurement is None else judge(measurement)
    found = replace(found or findings(), bottleneck=bottleneck)
    return summarize(found, measurement, verdict)


def test_the_summary_of_a_loader_alone() -> None:
    """It has the rate, the stage, the resource with its figures, and what would help."""
    assert summary() == (
        "Loads 50 batches/s, 20 ms each. "
        "Stage Map of mine.tokenize holds 71% of loading, bound by the GIL (threads 1 to 2: "
        "+4%, processes 1 to 2: +93%). "
        "Clearest effect: two single-thread runs, each in a process: "
        "1.90 (1.71 to 2.09) times as fast. "
        "3 workers would give 15 ms [13.5, 16.5]; headroom then 1.1 (not tried: there was no time)."
    )


def test_the_summary_says_that_a_storage_is_a_stand_in() -> None:
    """With a step and without one, the rates of a loader in a storage are marked as derived."""
    alone = summary(replace(findings(), storage="network-disk"))
    assert alone.startswith("Loads 50 batches/s, 20 ms each (derived: in network-disk). ")
    measured = replace(LOADER_BOUND, storage="network-disk")
    assert summary(measurement=measured).startswith(
        "Loader-bound on h100-sxm-80gb-x1 in network-disk (derived): "
    )


def test_rates_have_no_exponent() -> None:
    """A fast loader has its rate in plain digits."""
    fast = replace(findings(), load_s_per_batch=Interval(0.00093, 0.0009, 0.00096, 9))
    assert "1080 batches/s, 930 us" in summary(fast)


@pytest.mark.parametrize(
    ("measurement", "parts"),
    [
        (LOADER_BOUND, ("Loader-bound", "(derived)", "33.3 batches/s", "sustains 25.")),
        (make_measurement(), ("Healthy on h200-x1", "33.3 batches/s", "first: stage")),
        (make_measurement(rounds=2), ("Inconclusive", "Stage")),
    ],
)
def test_a_verdict_about_loading_is_followed_by_the_stage(
    measurement: Measurement, parts: tuple[str, ...]
) -> None:
    """The summary begins with the verdict, the device, and both rates."""
    text = summary(measurement=measurement)
    assert text.startswith(parts[0])
    assert all(part in text for part in (*parts, NAME))


@pytest.mark.parametrize(
    ("measurement", "kind"),
    [
        (make_measurement(train_s=0.038, sync_probe_fraction=1.0), "Forced-sync"),
        (make_measurement(train_s=0.0330, transfer_s=0.0316), "Transfer-bound"),
    ],
)
def test_another_verdict_is_followed_by_its_advice(measurement: Measurement, kind: str) -> None:
    """Loading does not limit: the next step of the verdict is given instead of a stage."""
    text = summary(measurement=measurement)
    assert text.startswith(f"{kind} on h200-x1: ")
    assert judge(measurement).next in text
    assert "tokenize" not in text


@pytest.mark.parametrize(
    ("bottleneck", "part"),
    [
        (Bottleneck("P", "process-transfer", 0.4, "w"), "between processes holds 40%: w."),
        (Bottleneck(None, "device-transfer", 0.1, "w"), "to the device"),
        (Bottleneck(None, "unknown", 0.0, "w"), "No stage"),
        (Bottleneck("S", "unknown", 0.9, "why not"), "loading; why not."),
        (Bottleneck("S", "waiting", 0.9, "w"), "waiting for storage"),
        (Bottleneck("S", "cpu", 0.9, "w"), "the CPU (w)"),
        (Bottleneck("S", "disk", 0.9, "w"), "the disk (w)"),
        (Bottleneck("S", "memory", 0.9, "w"), "all cores share (w)"),
        (Bottleneck("S", "read-latency", 0.9, "w"), "the latency of reads (w)"),
        (Bottleneck("S", "read-bandwidth", 0.9, "w"), "the bandwidth of the storage (w)"),
        (Bottleneck("S", "read-throttling", 0.9, "w"), "limit on requests to the storage (w)"),
    ],
    ids=lambda given: given.resource if isinstance(given, Bottleneck) else "",
)
def test_every_resource_has_its_words(bottleneck: Bottleneck, part: str) -> None:
    """The resource is named in words, with the figures behind it."""
    assert part in summary(bottleneck=bottleneck)


def predict(change: str, kind: str, load_s: float) -> Prediction:
    """Return a prediction without headroom."""
    return Prediction(change, kind, interval(load_s))


HALF_SIZE = predict("batches of half the size", "smaller-batch", 0.010)
USELESS = predict("4 workers", "workers", 0.0195)


@pytest.mark.parametrize(
    ("what_if", "part"),
    [
        ((HALF_SIZE, USELESS, predict("6 workers", "workers", 0.012)), "6 workers would give 12"),
        ((USELESS, HALF_SIZE), HALF_SIZE.change.capitalize()),
        (
            (HALF_SIZE, predict("16 reads in flight", "reads-in-flight", 0.012)),
            "16 reads in flight would give 12",
        ),
        # A sentence begins with a capital, a name as it is written.
        (
            (predict("load > decode unpaid", "without-stage", 0.01),),
            " load > decode unpaid",
        ),
        ((replace(USELESS, load_s_per_batch=Interval(2e-3, 0, inf, 1)),), "2 ms [0, inf]"),
    ],
)
def test_the_most_promising_change_is_given(what_if: tuple[Prediction, ...], part: str) -> None:
    """Settings of the loader come before changes of the code, then the first that helps."""
    assert part in summary(findings(what_if=what_if))


def test_long_predictions_are_in_seconds() -> None:
    """A loader that takes seconds per batch has its prediction in seconds."""
    slow = findings(load_s_per_batch=interval(4.0), what_if=(predict("4 workers", "workers", 2.0),))
    assert " 2 s [1.8, 2.2]" in summary(slow)


def test_a_change_that_gives_nothing_is_not_mentioned() -> None:
    """Nothing is promised if no prediction helps."""
    assert "would give" not in summary(findings(what_if=(USELESS,)))


def test_the_summary_says_what_became_of_the_change() -> None:
    """It has what was measured, or the reason why nothing was, without the change's name again."""
    tried = summary(findings(verified=VERIFIED, unverified=""))
    assert tried.endswith("tried: 16 ms instead of 22 ms.")
    untried = findings(unverified=str(Untried(NO_TIME, THREE_WORKERS.change)))
    assert untried.why_untried == NO_TIME
    assert summary(untried).endswith(f"(not tried: {NO_TIME}).")


def print_tables(found: Diagnosis, width: int = 118) -> list[str]:
    """Return each table as one text without repeated spaces."""
    texts = []
    for table in tables(found):
        # As netpipe.cli.console prints it: names of the user's are no markup.
        console = Console(width=width, markup=False, emoji=False, highlight=False)
        with console.capture() as capture:
            console.print(table.for_terminal())
        texts.append(" ".join(capture.get().split()))
    return texts


def print_findings(*, width: int = 118, **given: Any) -> list[str]:
    """Return the tables of some findings."""
    return print_tables(diagnosis(findings=findings(**given)), width)


def test_stages_have_all_their_figures() -> None:
    """The table has the share, all times, where the stage runs and where it was made."""
    slow = stage(without_s_per_batch=interval(0.011), cpu_s_per_batch=0.020)
    text = print_findings(stages=(slow,))[0]
    assert "40 ms in all" in text
    assert f"{NAME} 75.0% 30 ms 20 ms 11 ms (9.9 ms to 12.1 ms) workers mine.py:7" in text


def test_the_table_has_the_largest_stages() -> None:
    """Eight are shown; the document has them all."""
    text = print_findings(stages=tuple(stage(f"Stage{number}", 0.001) for number in range(12)))[0]
    assert "Stage7" in text
    assert "Stage8" not in text


def test_interventions_have_their_speedup_or_the_reason() -> None:
    """The interval of the speedup stands with it, if there were enough rounds."""
    made = findings().interventions
    text = print_findings(width=160)[1]
    assert f"({made[0].what}) 40 ms (36 ms to 44 ms) 21 ms (18.9 ms to 23.1 ms)" in text
    assert f"1.90 (1.71 to 2.09) {made[0].says}" in text
    assert f"({made[1].what}) {made[1].says}" in text
    single = replace(made[0], speedup=Interval(2.0, 0.0, inf, 1))
    assert "2.00 (0.00 or more)" in print_findings(interventions=(single,), width=160)[1]


def test_predictions_stand_below_the_measurement() -> None:
    """The first row is the unmodified loader."""
    text = print_findings()[2]
    assert text.index("20 ms (18 ms to 22 ms)") < text.index("3 workers 15 ms")
    assert "1.10" in text


def test_no_table_is_empty() -> None:
    """Needs, stages and predictions may be missing."""
    assert len(print_findings(stages=(), what_if=())) == 1
    assert len(print_findings()) == 3
    assert "h200 10.1 ms 98.9 5 4.2 0.51" in print_tables(diagnosis([NEED]))[3]


def test_a_start_has_its_parts() -> None:
    """A part that was not seen has no time of 0, and no share."""
    (*_, text) = print_findings(start_up=StartUp(1.0, 2.0, None, None, 5.0))
    assert "Start-up: 8 s from the imports" in text
    assert "the first read 5 s 62.5%" in text
    assert "imports not seen loader() 1 s 12.5%" in text
    assert "slow-start" not in text


def test_a_slow_start_is_explained() -> None:
    """The finding is part of the table's caption, where there is no measurement."""
    (*_, text) = print_findings(start_up=StartUp(60.0, 2.0))
    assert "slow-start: the first batch took 62 s" in text
    assert "build an index once and keep it." in text


def test_names_are_printed_as_they_are() -> None:
    """Markup and emoji in the user's names are text, and break nothing."""
    odd = stage("Map of mine.<lambda>[/x] :smile: [red]", made_at="a[b].py:1")
    text = print_tables(diagnosis(findings=findings(stages=(odd,))), 200)[0]
    assert odd.name in text
    assert odd.made_at in text


def test_the_last_line_says_what_became_of_the_change() -> None:
    """A remark about the time makes the line superfluous."""
    assert closing(findings(verified=VERIFIED, unverified="")) == f"tried: {VERIFIED.says}"
    assert findings().unverified in closing(findings())
    no_time = findings(unverified=NO_TIME)
    assert NO_TIME in closing(no_time)
    remark = "short of time"
    assert closing(replace(no_time, remarks=(remark,))) == f"remark: {remark}"


def test_reads_have_their_time_and_their_rate() -> None:
    """The caption says how many the loader has in flight, and how large they are."""
    scaling = made_scaling((1.0, 1.0, 4.0))
    text = print_findings(reads=describe_reads(replace(SLOW_READS, reads=scaling)))[2]
    assert "the loader has 4 in flight, of 20 kB each" in text
    assert "4 40 ms 100 16 40 ms 400 64 160 ms 400" in text


def test_an_element_of_several_reads_is_counted_as_those() -> None:
    """Its time is shared by them, and so are its bytes."""
    scaling = made_scaling(reads=[made_read(0.080, 40_000, 4)] * 3)
    text = print_findings(reads=describe_reads(replace(SLOW_READS, reads=scaling)))[2]
    assert "10 kB each" in text
    assert "4 20 ms 200 16 10 ms 1600" in text


def test_reads_of_unknown_size_are_elements() -> None:
    """A map that waits, and not the source, has no size of a record."""
    reads = describe_reads(replace(SLOW_READS, reads=made_scaling(reads=[Read(0, 0.040)] * 3)))
    assert reads is not None
    assert reads.bytes_per_read is None
    text = print_findings(reads=reads)[2]
    assert "the loader has 4 in flight." in text
    assert "4 40 ms 100" in text


def test_reads_that_do_not_wait_have_no_table() -> None:
    """They were not measured."""
    assert describe_reads(replace(SLOW_READS, reads=None)) is None
    assert not any("in flight" in text for text in print_findings())
