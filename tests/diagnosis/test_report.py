"""A diagnosis as text: its summary, and its tables."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from rich.console import Console

from netpipe.diagnosis.conclusions import describe_reads
from netpipe.diagnosis.diagnosis import Bottleneck, Findings, Prediction
from netpipe.diagnosis.experiments.read_scaling import Read
from netpipe.diagnosis.experiments.turns import NO_TIME
from netpipe.diagnosis.summary import summarize
from netpipe.reporting.diagnosis_tables import closing, tables
from netpipe.results.measurement import CACHE_WARMS_UP, Device, Finding, Interval, Measurement
from netpipe.results.start_up import StartUp
from netpipe.verdict.decision import judge
from tests.diagnosis.examples import BOTTLENECK, NAME, VERIFIED, findings, interval, stage
from tests.diagnosis.made_reads import SLOW_READS, made_read, made_scaling
from tests.measurements import make_measurement

H100 = Device("h100-sxm-80gb-x1", "emulated:h100", "emulated")
LOADER_BOUND = make_measurement(load_s=0.040, train_s=0.040, device=H100)


def summary(
    found: Findings | None = None,
    measurement: Measurement | None = None,
    bottleneck: Bottleneck = BOTTLENECK,
) -> str:
    """Return the summary."""
    verdict = None if measurement is None else judge(measurement)
    return summarize(replace(found or findings(), bottleneck=bottleneck), measurement, verdict)


def test_the_summary_of_a_loader_alone() -> None:
    """The summary has the rate, the stage, the resource with figures, and a useful change."""
    assert summary() == (
        "Loads 50 batches/s, 20 ms each. "
        "Stage Map of mine.tokenize takes 71% of the loading time, bound by the GIL (threads 1 to "
        "2: +4%, processes 1 to 2: +93%). "
        "Clearest effect: two single-thread runs, each in a process: "
        "1.90 (1.71 to 2.09) times as fast. "
        "3 workers should be faster (not tried: there was no time)."
    )


FAST = findings(load_s_per_batch=Interval(0.00093, 0.0009, 0.00096, 9))
STORED = replace(LOADER_BOUND, storage="network-disk")


@pytest.mark.parametrize(
    ("found", "measurement", "parts"),
    [
        (FAST, None, ("Loads", "1080 batches/s, 930 us")),
        (findings(storage="disk"), None, ("Loads", "20 ms each (derived: in disk).")),
        (findings(), STORED, ("Loader-bound on h100-sxm-80gb-x1 in network-disk (derived): ",)),
        (findings(), LOADER_BOUND, ("Loader-bound", "(derived)", "33.3 batches/s", "sustains 25.")),
        (
            findings(),
            make_measurement(),
            ("Healthy on h200-x1", "33.3", "would limit first"),
        ),
        (
            findings(),
            make_measurement(rounds=2, busy_elsewhere_fraction=0.9),
            ("Inconclusive on h200-x1: only 2 rounds", "other programs took 90.0%", "Stage"),
        ),
    ],
)
def test_the_summary_begins_with_the_rates(
    found: Findings, measurement: Measurement | None, parts: tuple[str, ...]
) -> None:
    """With a step it begins with the verdict and the device; the stage follows."""
    text = summary(found, measurement)
    assert text.startswith(parts[0])
    assert all(part in text for part in (*parts, NAME))


WARMED = make_measurement(
    findings=(Finding(CACHE_WARMS_UP, "45 ms in 4 rounds and 187 us in the 5 after them"),),
    busy_elsewhere_fraction=0.9,
)


def test_a_cache_that_warms_up_is_in_the_summary() -> None:
    """The rates are those of the later rounds, as in a measurement."""
    text = summary(measurement=WARMED)
    assert "judged since loading became faster (cache-warms-up). Stage" in text


def test_the_findings_of_the_measurement_are_listed() -> None:
    """They are those of `netpipe measure`, before the remarks of the diagnosis."""
    lines = closing(findings(remarks=("short of time",)), WARMED).splitlines()
    assert lines[0] == "cache-warms-up: 45 ms in 4 rounds and 187 us in the 5 after them"
    assert lines[1].startswith("busy-host: other programs took 90.0%")
    assert lines[2] == "remark: short of time"


@pytest.mark.parametrize(
    ("measurement", "kind"),
    [
        (make_measurement(train_s=0.038, sync_probe_fraction=1.0), "Forced-sync"),
        (make_measurement(train_s=0.0330, transfer_s=0.0316), "Transfer-bound"),
    ],
)
def test_other_verdicts_are_followed_by_their_advice(measurement: Measurement, kind: str) -> None:
    """If loading does not limit, the next step of the verdict replaces the stage."""
    text = summary(measurement=measurement)
    assert text.startswith(f"{kind} on h200-x1: ")
    assert judge(measurement).next in text
    assert "tokenize" not in text


@pytest.mark.parametrize(
    ("bottleneck", "part"),
    [
        (
            Bottleneck("P", "process-transfer", 0.4, "w"),
            "between processes takes 40% of the loading time: w.",
        ),
        (Bottleneck(None, "device-transfer", 0.1, "w"), "to the device"),
        (Bottleneck(None, "unknown", 0.0, "w"), "No stage"),
        (Bottleneck("S", "unknown", 0.9, "why not"), "loading time; why not."),
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
    """The summary names the resource in words, with the figures behind it."""
    assert part in summary(bottleneck=bottleneck)


def predict(change: str, kind: str, expected: str = "faster") -> Prediction:
    """Return a prediction."""
    return Prediction(change, kind, expected)


DECODED = predict("decode at no cost", "without-stage")
USELESS = predict("4 workers", "workers", "unclear")


@pytest.mark.parametrize(
    ("what_if", "part"),
    [
        ((DECODED, USELESS, predict("6 workers", "workers")), " 6 workers should be faster (not"),
        (
            (DECODED, predict("16 reads in flight", "reads-in-flight")),
            " 16 reads in flight should be faster (not",
        ),
        # The name of a stage keeps its case at the start of a sentence.
        ((predict("load > decode at no cost", "without-stage"),), " load > decode at no cost"),
    ],
)
def test_the_first_change_that_helps_is_given(what_if: tuple[Prediction, ...], part: str) -> None:
    """Settings of the loader come before changes of the code."""
    assert part in summary(findings(what_if=what_if))


@pytest.mark.parametrize("expected", ["unclear", "slower"])
def test_a_useless_change_is_not_mentioned(expected: str) -> None:
    """The summary promises nothing if no change is expected to help."""
    guess = predict("4 workers", "workers", expected)
    assert "should be" not in summary(findings(what_if=(guess,)))


def test_the_summary_has_the_result_of_the_tried_change() -> None:
    """Otherwise it has the reason why nothing was tried."""
    tried = findings(verified=VERIFIED, unverified="")
    assert summary(tried).endswith(f" Tried {VERIFIED.says}.")
    assert f"{VERIFIED.says}; headroom then 1.9." in summary(tried, LOADER_BOUND)
    assert summary(findings(unverified=NO_TIME)).endswith(f"(not tried: {NO_TIME}).")


@pytest.mark.parametrize(("enough", "text"), [(0, "0"), (3, "3"), (None, "unknown")])
def test_the_summary_has_the_fewest_workers_for_a_step(enough: int | None, text: str) -> None:
    """The sentence needs a step; a number that is not known is said to be unknown."""
    found = findings(enough_workers=enough)
    sentence = f" Fewest workers that feed the step: {text} (has {found.workers})."
    assert summary(found, LOADER_BOUND).endswith(sentence)
    assert "Fewest" not in summary(found)


def print_findings(*, width: int = 118, **given: Any) -> list[str]:
    """Return each table of some findings as one text without repeated spaces."""
    texts = []
    for table in tables(findings(**given)):
        # netpipe.cli.console prints names literally, too.
        console = Console(width=width, markup=False, emoji=False, highlight=False)
        with console.capture() as capture:
            console.print(table.for_terminal())
        texts.append(" ".join(capture.get().split()))
    return texts


def test_stages_have_all_their_figures() -> None:
    """A row has the share, all times, where the stage runs and where it was made."""
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
    """The speedup has its interval, which is unbounded after a single round."""
    made = findings().interventions
    text = print_findings(width=160)[1]
    assert f"({made[0].what}) 40 ms (36 ms to 44 ms) 21 ms (18.9 ms to 23.1 ms)" in text
    assert f"1.90 (1.71 to 2.09) {made[0].says}" in text
    assert f"({made[1].what}) {made[1].says}" in text
    single = replace(made[0], speedup=Interval(2.0, 0.0, inf, 1))
    assert "2.00 (only 1 round)" in print_findings(interventions=(single,), width=160)[1]


def test_changes_have_their_direction() -> None:
    """No time is given: the model is too coarse for that."""
    text = print_findings()[2]
    assert "3 workers faster" in text
    assert " ms" not in text


def test_empty_tables_are_left_out() -> None:
    """Stages, reads and predictions may be missing."""
    assert len(print_findings(stages=(), what_if=())) == 1
    assert len(print_findings()) == 3


def test_a_start_has_its_parts() -> None:
    """A part that was not seen has neither time nor share."""
    (*_, text) = print_findings(start_up=StartUp(1.0, 2.0, None, None, 5.0))
    assert "Start-up: 8 s from the imports" in text
    assert "the first read 5 s 62.5%" in text
    assert "imports not seen loader() 1 s 12.5%" in text
    assert "slow-start" not in text


def test_a_slow_start_is_explained() -> None:
    """The caption of the table has the reason."""
    (*_, text) = print_findings(start_up=StartUp(60.0, 2.0))
    assert "slow-start: the first batch took 62 s" in text
    assert "build an index once and keep it." in text


def test_names_are_printed_literally() -> None:
    """Brackets and colons in the user's names are text."""
    odd = stage("Map of mine.<lambda>[/x] :smile: [red]", made_at="a[b].py:1")
    text = print_findings(stages=(odd,), width=200)[0]
    assert odd.name in text
    assert odd.made_at in text


def test_the_last_line_has_the_result_of_the_tried_change() -> None:
    """Otherwise it has the reason why nothing was tried."""
    assert closing(findings(verified=VERIFIED, unverified="")) == f"tried: {VERIFIED.says}"
    assert closing(findings()) == f"nothing was tried: {findings().unverified}"


@pytest.mark.parametrize(
    ("scaling", "parts"),
    [
        (
            made_scaling((1.0, 1.0, 4.0)),
            ("4 in flight, of 20 kB each", "16 40 ms 400 64 160 ms 400"),
        ),
        # The reads of an element share its time and its bytes.
        (made_scaling(reads=[made_read(0.080, 40_000, 4)] * 3), ("10 kB", "4 20 ms 200 16 10 ms")),
        # If a map waits instead of the source, reads are elements without a size.
        (made_scaling(reads=[Read(0, 0.040)] * 3), ("has 4 in flight.", "4 40 ms 100")),
    ],
)
def test_reads_have_their_time_and_their_rate(scaling: Any, parts: tuple[str, ...]) -> None:
    """The caption has the number of reads in flight, and their size if it is known."""
    text = print_findings(reads=describe_reads(replace(SLOW_READS, reads=scaling)))[2]
    assert all(part in text for part in parts)


def test_reads_that_do_not_wait_have_no_table() -> None:
    """Reads that do not wait were not measured."""
    assert describe_reads(replace(SLOW_READS, reads=None)) is None
    assert not any("in flight" in text for text in print_findings())
