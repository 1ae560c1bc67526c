"""The parts of a page that each kind of document gives: tone, headline, facts and cards."""

from typing import Any

import pytest

from netpipe.measuring.training.token_counts import BY_ELEMENTS
from netpipe.reporting.content import Card, Drawing, Fact, Notes, Part
from netpipe.reporting.parts import build_parts
from netpipe.reporting.rendering import replace_unprintable
from netpipe.reporting.tables import Cell, Table
from netpipe.reporting.tones import Tone
from tests.history.made import make_entry
from tests.measurements import CPU, EMULATED
from tests.reporting import examples
from tests.reporting.examples import comparison, diagnosis, lint, measurement, near, run, work

pytestmark = pytest.mark.usefixtures("_no_drawings")

STEPS = ["Who waits for whom", "All steps, not only the median"]


def build(document: dict[str, Any]) -> tuple[Part, ...]:
    """Build the parts of a document."""
    return build_parts(replace_unprintable(document))


def headings(part: Part) -> list[str]:
    """Return the headings of a part's cards."""
    return [card.heading for card in part.cards]


def find_card(part: Part, heading: str) -> Card:
    """Return the card with a heading."""
    return next(card for card in part.cards if card.heading == heading)


def find_table(part: Part, heading: str) -> Table:
    """Return the table with a heading, or beside the drawing with that heading."""
    card = find_card(part, heading)
    table = card.table if isinstance(card, Drawing) else card
    assert isinstance(table, Table)
    return table


def test_a_measurement_leads_with_its_verdict() -> None:
    """The headline has the kind and the message without it; the figures and the steps follow."""
    (part,) = build(measurement())
    assert (part.headline.tone, part.headline.word) == (Tone.BAD, "Loader-bound")
    assert "40 ms" in part.headline.sentence
    assert "oader-bound:" not in part.headline.sentence
    assert part.headline.next
    assert part.facts[0].value == "40 ms"
    assert headings(part)[:2] == STEPS


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
def test_the_tone_of_a_verdict_agrees_with_the_exit_code(
    kind: str, device: str, tone: Tone
) -> None:
    """A verdict that passes is not bad news; an inconclusive one is neither good nor bad."""
    document = measurement()
    document["verdict"]["kind"] = kind
    document["device"]["platform"] = device
    (part,) = build(document)
    assert part.headline.tone is tone


def test_nothing_is_advised_without_a_verdict() -> None:
    """An inconclusive measurement needs an unknown number of workers and cores."""
    (part,) = build(measurement(drained=False))
    assert part.headline.word == "Inconclusive"
    assert not [fact for fact in part.facts if "needed" in fact.label]
    both = examples.measurements()
    both["measurements"][1] = measurement(device=CPU, drained=False)
    table = find_table(build(both)[0], "Headroom of each accelerator")
    assert [row["workers needed"].text for row in table.rows] == ["2", ""]


@pytest.mark.parametrize(
    ("load_s", "workers", "needed"),
    [(0.000_3, 0, None), (0.000_3, 2, "1"), (0.040, 0, "2")],
    ids=["fed", "too many", "slow"],
)
def test_a_loader_that_keeps_up_without_workers_needs_none(
    load_s: float, workers: int, needed: str | None
) -> None:
    """A headroom of 100 does not call for a first worker."""
    (part,) = build(measurement(load_s=load_s, loader_processes=workers))
    facts = {fact.label: fact.value for fact in part.facts}
    assert facts.get("workers needed") == needed


def test_the_rates_are_shown_or_why_not() -> None:
    """The page says why a rate is not known; accelerators are compared by the others."""
    both = [
        measurement(device=EMULATED, tokens_per_s=near(52345.0), mfu=near(0.15)),
        measurement(not_known={"mfu": "no peak"}),
    ]
    overview, first, second = build({"schema": "netpipe.measurements/1", "measurements": both})
    assert Fact("tokens/s", "52.3 k", "49.7 k to 55 k") in first.facts
    assert Fact("MFU", "15%", "14% to 16%") in first.facts
    assert Fact("MFU", "not known", "no peak") in second.facts
    rows = find_table(overview, "Headroom of each accelerator").rows
    assert [row["tokens/s"].text for row in rows] == ["52.3 k", "not known"]
    assert [row["MFU"].text for row in rows] == ["15%", "not known"]


@pytest.mark.parametrize(
    "document",
    [examples.plain_measurement(), measurement() | {"timeline": [], "distributions": None}],
    ids=["missing", "empty"],
)
def test_a_measurement_without_single_steps_draws_none(document: dict[str, Any]) -> None:
    """Older documents have no timeline and no distributions."""
    (part,) = build(document)
    assert not set(STEPS) & set(headings(part))


def test_a_lint_leads_with_its_most_severe_finding() -> None:
    """An error comes before a warning; the pipeline is drawn, findings and silences are listed."""
    (part,) = build(lint())
    assert (part.headline.tone, part.headline.word) == (Tone.BAD, "1 error, 1 warning, 1 remark")
    assert part.headline.sentence.startswith("shuffle-after-batch:")
    expected = ["The pipeline", "Findings", "Proposals, tried", "Silenced"]
    assert headings(part) == expected


@pytest.mark.parametrize(("kind", "word"), [("healthy", "Healthy"), ("jitter", "Jitter")])
def test_a_loader_that_training_does_not_wait_for_is_not_blamed(kind: str, word: str) -> None:
    """The headline is the verdict, not the slowest stage, if training waits for something else."""
    document = diagnosis()
    document["measurement"]["verdict"]["kind"] = kind
    assert build(document)[0].headline.word == word


def find_comparisons(document: dict[str, Any]) -> Table:
    """Return the table of a run's comparisons with baselines."""
    return find_table(build(document)[0], "Against the baseline")


def test_a_run_shows_every_test_of_a_device() -> None:
    """The first session of each test has a part with the test's name; older runs have no names."""
    sessions = [
        {**measurement(), "test": "a::b"},
        {**measurement(), "test": "c::d"},
        {**measurement(), "test": "c::d"},
    ]
    titles = [part.title for part in build(run(measurements=sessions, lints=[]))]
    assert titles == ["The run", "h200-x1 a::b", "h200-x1 c::d"]
    older = build(run(measurements=[measurement(), measurement()], lints=[]))
    assert [part.title for part in older] == ["The run", "h200-x1"]


def test_a_session_that_the_gate_added_has_no_part() -> None:
    """Its verdict is not confirmed, so it does not make a run look bad."""
    added = {
        **measurement(),
        "load_s_per_batch": {**measurement()["load_s_per_batch"], "median": 9.0},
    }
    (part,) = (
        each
        for each in build(run(measurements=[measurement(), added], lints=[]))
        if each.title == "h200-x1"
    )
    assert part == build(run(measurements=[measurement()], lints=[]))[1]


def test_a_run_leads_with_its_worst_comparison() -> None:
    """The first measurement of each device and the lints follow."""
    first, *others = build(run())
    assert (first.headline.tone, first.headline.word) == (Tone.BAD, "1 of 2 REGRESSED")
    assert "load_s_per_batch" in first.headline.sentence
    assert [part.title for part in others] == ["h200-x1", "The order of the calls"]


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
def test_the_tone_of_an_outcome_agrees_with_the_suite(outcome: str, tone: Tone) -> None:
    """The headline names the outcome."""
    alone = run(measurements=[], lints=[], comparisons=[comparison(outcome, "step_s")])
    (part,) = build(alone)
    assert part.headline.tone is tone
    assert part.headline.word == f"1 of 1 {outcome.replace('_', ' ')}"


def test_a_metric_that_is_only_reported_is_plain() -> None:
    """A metric that is not judged on this device does not outweigh one that passed."""
    reported = comparison("NOT_COMPARED", "train_s_per_step", is_reported_only=True)
    (part,) = build(run(measurements=[], lints=[], comparisons=[reported]))
    assert part.headline.tone is Tone.PLAIN
    both = [reported, comparison("PASS", "step_s")]
    (part,) = build(run(measurements=[], lints=[], comparisons=both))
    assert (part.headline.tone, part.headline.word) == (Tone.GOOD, "1 of 2 PASS")


WAIVER = {"benchmark": "a", "metric": "step_s", "bound": 2, "reason": "known",
          "expires": "2027-01-01", "device": "", "is_added": True}  # fmt: skip


def test_a_waived_regression_is_a_warning() -> None:
    """A waived regression fails nothing but is not a PASS; the table gives the reason."""
    waived = comparison("REGRESSED", "step_s", waiver=WAIVER)
    document = run(measurements=[], lints=[], comparisons=[waived])
    (part,) = build(document)
    assert part.headline.tone is Tone.WARN
    assert find_comparisons(document).rows[0]["outcome"].note == "waived: known"


def test_the_headline_counts_only_what_fails() -> None:
    """A waived regression beside a failing one is not counted with it."""
    rows = [comparison("REGRESSED", "step_s"), comparison("REGRESSED", "load_s", waiver=WAIVER)]
    part, *_ = build(run(measurements=[], lints=[], comparisons=rows))
    assert part.headline.word == "1 of 2 REGRESSED"


def test_a_bad_measurement_outweighs_passing_comparisons() -> None:
    """A run that passes its gate but is loader-bound is bad news."""
    first, *_ = build(run(comparisons=[comparison("PASS", "step_s")]))
    assert first.headline.tone is Tone.BAD
    assert "h200-x1: Loader-bound." in first.headline.sentence


def test_counted_work_has_a_part() -> None:
    """Counted work is shown with its comparison, or as not compared."""
    counted = [{**work(), "test": "a.py::test"}]
    compared = comparison("REGRESSED", "calls", benchmark="a.py::test", quantity="work")
    run_only = {"measurements": [], "lints": [], "work": counted}
    _, part = build(run(**run_only, comparisons=[compared]))
    assert (part.title, part.headline.word) == ("Work a.py::test", "More work")
    waived = compared | {"waiver": {"reason": "it is worth it"}}
    first, part = build(run(**run_only, comparisons=[waived]))
    assert part.headline.word == "More work, waived"
    assert first.headline.tone is Tone.WARN
    first, part = build(run(**run_only, comparisons=[]))
    assert "Nothing was measured" not in first.headline.sentence
    assert part.headline.word == "Counted"


def test_a_metric_has_its_figures() -> None:
    """Figures have their units."""
    first, _ = find_comparisons(run()).rows
    figures = [first[heading].text for heading in ("now / before", "now", "before")]
    assert figures == ["1.80 x", "36 ms", "20 ms"]


def test_tests_of_two_classes_are_told_apart() -> None:
    """The name includes the class, and a parameter whole, even one with `::`."""
    names = ("TestA::test_load", "TestB::test_load", "test_load[in.py::x]")
    rows = [comparison("PASS", "step_s", benchmark=f"test_a.py::{name}") for name in names]
    shown = [row["metric"].note for row in find_comparisons(run(comparisons=rows)).rows]
    assert shown == [*names]


def test_comparisons_with_a_git_ref_have_their_own_table() -> None:
    """Comparisons in turns are not mixed with those against baselines."""
    pairs = [comparison("PASS", "step_s"), comparison("PASS", "step_s", against="main")]
    against = {"ref": "main", "commit": "0123456789abcdef", "pairs": []}
    part, *_ = build(run(comparisons=pairs, against=against))
    assert headings(part) == ["Against the baseline", "Against main"]
    assert ("main", "0123456789ab") in [(fact.value, fact.note) for fact in part.facts]


def test_accepted_changes_are_shown() -> None:
    """The page lists the baselines that a change replaces and the slowdowns that it accepts."""
    figures = {"load_s_per_batch": {"before": 0.01, "after": 0.02, "ratio": 2.0}}
    change: dict[str, Any] = {
        "change": "replaced", "file": "h200-x1/0002_a.json", "before": None, "after": None,
        "differences": [], "figures": figures,
    }  # fmt: skip
    accepted = {"commit": "abc", "baseline_changes": [change], "waivers": [WAIVER]}
    part, *_ = build(run(accepted=accepted))
    table = find_table(part, "Baselines that this change replaces")
    assert [table.rows[0][heading].text for heading in ("before", "after")] == ["10 ms", "20 ms"]
    assert "Accepted slowdowns" in headings(part)


@pytest.mark.parametrize(
    ("outcomes", "word", "tone"),
    [
        ((), "Counted", Tone.PLAIN),
        (("PASS",), "No more work", Tone.GOOD),
        (("PASS", "NOT_COMPARED"), "Undecided", Tone.OPEN),
        (("PASS", "INCONCLUSIVE"), "Undecided", Tone.OPEN),
        (("NOT_COMPARED", "REGRESSED"), "More work", Tone.BAD),
    ],
)
def test_work_leads_with_what_rose(outcomes: tuple[str, ...], word: str, tone: Tone) -> None:
    """Without a rise, the headline names the counts that were not compared."""
    document = work()
    document["comparisons"] = [{"outcome": each, "reason": f"is {each}"} for each in outcomes]
    [part] = build(document)
    assert (part.headline.word, part.headline.tone) == (word, tone)
    [table, notes] = part.cards
    assert isinstance(table, Table)
    assert {row["kind"].text for row in table.rows} == set(document["counts"])
    assert isinstance(notes, Notes)
    assert "not counted: rows.encode cannot be counted" in [note.text for note in notes.notes]


def test_the_speed_of_loaders_without_padding_is_in_examples() -> None:
    """Pixels do not count as tokens. Loaders of the same target keep their own figures."""
    document = examples.throughput()
    figures = {
        f"examples_per_{unit}": {"median": 90.0, "low": 80.0, "high": 99.0, "n": 3}
        for unit in ("s", "cpu_s")
    }
    for each in (*document["combinations"], document["against"]):
        each |= figures | {"counted_by": BY_ELEMENTS}
    (part,) = build(document)
    assert part.headline.word == "90 examples/s"
    table = find_table(part, "Every combination")
    assert "tokens/s" not in table.rows[0]
    assert [row["loader"] for row in table.rows][1] == Cell("other: their.py:loader")
    assert "Real tokens" not in str(part.cards)


def test_one_is_not_plural() -> None:
    """A history of one commit, a loader with one worker, and workers with one thread."""
    entries = [make_entry(1, {"step_s": 0.1}).to_document()]
    (history,) = build({"schema": "netpipe.history/1", "entries": entries})
    assert history.title == "History of 1 commit"
    document = examples.throughput()
    document["combinations"][0]["workers"] = 1
    assert ", 1 worker'" in str(build(document)[0].cards)
    document = diagnosis() | {"threads": 1}
    assert "1 thread in each" in [fact.note for fact in build(document)[0].facts]
