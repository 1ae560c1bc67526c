"""What is said of each document, and how it is taken."""

from typing import Any

import pytest

from netpipe.page.content import Card, Drawing, Fact, Facts, Pair, Part, Table
from netpipe.page.parts import build_parts
from netpipe.page.reading import replace_unprintable
from netpipe.page.tones import Tone
from tests.measurements import CPU
from tests.page import examples
from tests.page.examples import comparison, diagnosis, lint, measurement, measurements, run


def made(document: dict[str, Any]) -> tuple[Part, ...]:
    """The parts of a document."""
    return build_parts(replace_unprintable(document))


def headings(part: Part) -> list[str]:
    """Of its cards."""
    return [one.heading for one in part.cards]


def card(part: Part, heading: str) -> Card:
    """The card of a heading."""
    return next(one for one in part.cards if one.heading == heading)


def test_a_measurement_leads_with_its_verdict() -> None:
    """The kind in large, the sentence without it, then what to do; the figures below."""
    (part,) = made(measurement())
    assert (part.headline.tone, part.headline.word) == (Tone.BAD, "Loader-bound")
    assert part.headline.sentence.startswith("Loading a batch takes 40 ms")
    assert part.headline.next
    assert part.facts[0].value == "40 ms"
    assert headings(part)[:2] == ["Who waits for whom", "All steps, not only the median"]


@pytest.mark.parametrize(
    ("kind", "device", "tone"),
    [
        ("healthy", "gpu", Tone.GOOD),
        ("at-risk", "gpu", Tone.WARN),
        ("contention", "gpu", Tone.BAD),
        ("contention", "cpu", Tone.WARN),
        ("inconclusive", "gpu", Tone.OPEN),
        ("jitter", "gpu", Tone.BAD),
    ],
)
def test_a_verdict_is_taken_as_the_command_takes_it(kind: str, device: str, tone: Tone) -> None:
    """What passes is not red, and what is open is neither good nor bad."""
    document = measurement()
    document["verdict"]["kind"] = kind
    document["device"]["platform"] = device
    (part,) = made(document)
    assert part.headline.tone is tone


def test_nothing_is_advised_without_a_verdict() -> None:
    """An inconclusive measurement needs an unknown number of workers and cores."""
    (part,) = made(measurement(drained=False))
    assert part.headline.word == "Inconclusive"
    assert not [one for one in part.facts if "needed" in one.label]
    both = examples.measurements()
    both["measurements"][1] = measurement(device=CPU, drained=False)
    table = made(both)[0].cards[0]
    assert isinstance(table, Pair)
    assert [row[-1].text for row in table.table.rows] == ["2", ""]


def test_a_measurement_of_before_has_no_steps_to_show() -> None:
    """Without a timeline and distributions, and with null for them, there is no card of them."""
    for document in (examples.plain_measurement(), measurement() | {"timeline": [],
                     "distributions": None}):  # fmt: skip
        (part,) = made(document)
        assert headings(part)[0] == "What a batch and a step take"


def test_a_trace_is_named_where_one_was_kept() -> None:
    """With what opens it."""
    assert "kept.json.gz" in [
        one.value for one in further(measurement() | {"trace": "kept.json.gz"})
    ]
    assert not any("trace" in one.label for one in further(measurement() | {"trace": ""}))


def further(document: dict[str, Any]) -> tuple[Fact, ...]:
    """The figures that do not stand out."""
    found = card(made(document)[0], "Further figures")
    assert isinstance(found, Facts)
    return found.facts


def test_several_accelerators_stand_side_by_side_first() -> None:
    """How many are fed, then each of them."""
    overview, *each = made(measurements())
    assert (overview.headline.tone, overview.headline.word) == (Tone.BAD, "1 of 2 fed")
    assert [one.title for one in each] == ["emulated-30ms (derived)", "cpu-intel-xeon-2"]


def test_an_order_is_told_by_its_gravest_finding() -> None:
    """An error before a warning; the pipeline is drawn, all findings and silences are listed."""
    (part,) = made(lint())
    assert (part.headline.tone, part.headline.word) == (Tone.BAD, "1 error, 1 warning, 1 remark")
    assert part.headline.sentence.startswith("shuffle-after-batch:")
    expected = ["The pipeline", "Findings", "Proposals, tried", "Silenced"]
    assert headings(part) == expected


def test_nothing_wrong_is_good() -> None:
    """And a loader without a graph has no drawing."""
    (part,) = made(examples.empty_lint())
    assert (part.headline.tone, part.headline.word) == (Tone.GOOD, "In order")
    assert part.cards == ()


def test_a_diagnosis_says_what_holds_it_up() -> None:
    """Its sentence, taken as its measurement is; the steps stand with it and nowhere else."""
    first, measured, order = made(diagnosis())
    assert first.headline.word == ".map(tokenize): bound by Python's lock"
    assert first.headline.tone is Tone.BAD
    assert headings(first) == [
        "Who waits for whom", "All steps, not only the median", "Tried: 3 workers",
        "What each stage takes", "What if", "What was changed, to learn from it",
        "Headroom of each accelerator", "Where", "Versions",
    ]  # fmt: skip
    assert "Who waits for whom" not in headings(measured)
    assert order.title == "The order of the calls"


@pytest.mark.parametrize(("kind", "word"), [("healthy", "Healthy"), ("jitter", "Jitter")])
def test_a_loader_that_training_does_not_wait_for_is_not_blamed(kind: str, word: str) -> None:
    """Where the verdict is another, the page leads with that, and not with the slowest stage."""
    document = diagnosis()
    document["measurement"]["verdict"]["kind"] = kind
    assert made(document)[0].headline.word == word


def test_what_cannot_be_seen_is_not_drawn() -> None:
    """A stage of hardly any time is in the table only, and the caption says so."""
    document = diagnosis()
    document["stages"][1]["fraction"] = 0.001
    pair = card(made(document)[0], "What each stage takes")
    assert isinstance(pair, Pair)
    assert "source Probes" not in pair.drawing.svg
    assert "in the table only: 1." in pair.drawing.caption
    assert len(pair.table.rows) == 2


def test_a_prediction_that_was_not_tried_says_why() -> None:
    """And what else is missing is not there."""
    (part,) = made(examples.plain_diagnosis())
    assert headings(part) == ["No prediction was tried", "Where", "Versions"]
    assert part.headline.tone is Tone.PLAIN
    assert part.headline.word == "Bottleneck unknown"


def test_predictions_stand_beside_the_step() -> None:
    """Where there is one, its line shows which change suffices."""
    with_step, *_ = made(diagnosis())
    assert "the step" in drawing(with_step, "What if").caption
    alone = diagnosis() | {"measurement": None}
    assert "Shorter is better" in drawing(made(alone)[0], "What if").caption


def drawing(part: Part, heading: str) -> Drawing:
    """The drawing of a pair."""
    found = card(part, heading)
    assert isinstance(found, Pair)
    return found.drawing


def gate(document: dict[str, Any]) -> Table:
    """The table of a run's comparisons with baselines."""
    found = card(made(document)[0], "Against the baseline")
    assert isinstance(found, Table)
    return found


def test_a_run_is_told_by_its_worst_comparison() -> None:
    """Then what was measured last on each device, and the order."""
    first, *others = made(run())
    assert (first.headline.tone, first.headline.word) == (Tone.BAD, "1 of 2 REGRESSED")
    assert first.headline.sentence.startswith("load_s_per_batch is REGRESSED.")
    assert [one.title for one in others] == ["h200-x1", "The order of the calls"]


@pytest.mark.parametrize(
    ("outcome", "tone"),
    [
        ("PASS", Tone.GOOD),
        ("IMPROVED", Tone.GOOD),
        ("NO_BASELINE", Tone.OPEN),
        ("NOT_COMPARED", Tone.OPEN),
        ("INCONCLUSIVE", Tone.OPEN),
        ("REGRESSED", Tone.BAD),
    ],
)
def test_an_outcome_is_taken_as_the_suite_takes_it(outcome: str, tone: Tone) -> None:
    """Each in its own word."""
    alone = run(measurements=[], lints=[], comparisons=[comparison(outcome, "step_s")])
    (part,) = made(alone)
    assert part.headline.tone is tone
    assert part.headline.word == f"1 of 1 {outcome.replace('_', ' ')}"


def test_what_is_reported_only_is_plain() -> None:
    """A metric that is not judged on this device does not outweigh one that passed."""
    reported = comparison("NOT_COMPARED", "train_s_per_step", is_reported_only=True)
    (part,) = made(run(measurements=[], lints=[], comparisons=[reported]))
    assert part.headline.tone is Tone.PLAIN
    both = [reported, comparison("PASS", "step_s")]
    (part,) = made(run(measurements=[], lints=[], comparisons=both))
    assert (part.headline.tone, part.headline.word) == (Tone.GOOD, "1 of 2 PASS")


def test_a_waived_regression_is_a_warning() -> None:
    """It fails nothing, but it is no PASS; its reason stands beside it."""
    waiver = {"benchmark": "a", "metric": "step_s", "bound": 2, "reason": "known",
              "expires": "2027-01-01", "device": ""}  # fmt: skip
    waived = comparison("REGRESSED", "step_s", waiver=waiver)
    document = run(measurements=[], lints=[], comparisons=[waived])
    (part,) = made(document)
    assert part.headline.tone is Tone.WARN
    assert gate(document).rows[0][1].note == "waived: known"


def test_what_was_measured_can_be_worse_than_what_was_compared() -> None:
    """A run that passes its gate and is loader-bound is not green."""
    first, *_ = made(run(comparisons=[comparison("PASS", "step_s")]))
    assert first.headline.tone is Tone.BAD
    assert "h200-x1: Loader-bound." in first.headline.sentence


def test_a_metric_stands_with_its_history() -> None:
    """One drawing in its row, which says its values in words; figures have their units."""
    first, _ = gate(run()).rows
    told = [cell.text for cell in first if cell.svg]
    assert told == ["0001 10 ms, 0002 20 ms, now 36 ms"]
    assert [cell.text for cell in first][2:5] == ["1.80 x", "36 ms", "20 ms"]


def test_without_baselines_the_table_has_no_history() -> None:
    """A document of before says nothing of it, and has no empty column."""
    old = comparison("PASS", "step_s")
    del old["history"], old["device"]
    table = gate(run(comparisons=[old]))
    assert "history" not in [one.name for one in table.columns]
    assert len(table.rows[0]) == len(table.columns)


def test_a_git_ref_has_a_table_of_its_own() -> None:
    """What was measured in turns is not mixed with baselines."""
    pairs = [comparison("PASS", "step_s"), comparison("PASS", "step_s", against="main")]
    against = {"ref": "main", "commit": "0123456789abcdef", "pairs": []}
    part, *_ = made(run(comparisons=pairs, against=against))
    assert headings(part) == ["Against the baseline", "Against main"]
    assert ("main", "0123456789ab") in [(one.value, one.note) for one in part.facts]


def test_what_a_change_does_to_baselines_is_shown() -> None:
    """The files it replaces with their figures, and the slowdowns it accepts."""
    moved = {"before": 0.01, "after": 0.02, "ratio": 2.0}
    change: dict[str, Any] = {
        "change": "replaced", "file": "h200-x1/0002_a.json", "before": None, "after": None,
        "differences": [], "figures": {"load_s_per_batch": moved},
    }  # fmt: skip
    waiver = {"benchmark": "a", "metric": "step_s", "bound": 2, "reason": "known",
              "expires": "2027-01-01", "device": "", "is_added": True}  # fmt: skip
    accepted = {"commit": "abc", "baseline_changes": [change], "waivers": [waiver]}
    part, *_ = made(run(accepted=accepted))
    table = card(part, "Baselines that this change replaces")
    assert isinstance(table, Table)
    assert [cell.text for cell in table.rows[0]][2:] == ["10 ms", "20 ms"]
    assert "Accepted slowdowns" in headings(part)
