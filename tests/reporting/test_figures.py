"""Every figure on a page, compared with the document of the page."""

import re
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

import pytest

from netpipe.reporting.content import Drawing, Fact, Facts, Part
from netpipe.reporting.parts import build_parts
from netpipe.reporting.rendering import replace_unprintable
from netpipe.results.units import format_seconds
from tests.reporting import examples
from tests.reporting.examples import Document

_UNITS: Final = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "%": 0.01, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
    "kB": 1e3, "MB": 1e6, "GB": 1e9, "k": 1e3, "M": 1e6, "G": 1e9,
}  # fmt: skip
_FIGURE: Final = re.compile(
    rf"(?<![\w.])(-?\d[\d,]*(?:\.\d+)?)(e[+-]?\d+)?\s?({'|'.join(_UNITS)})?(?![\w])"
)
_DIGITS: Final = 0.006  # three significant digits: off by at most half of the third

# The sources of each figure: paths in the document, in the order of its numbers.
FIGURES: Final = {
    "load time L": ("load_s_per_batch.median", "load_s_per_batch.low", "load_s_per_batch.high"),
    "step time S0": ("step_s.median", "step_s.low", "step_s.high"),
    "real step R": ("train_s_per_step.median", "train_s_per_step.low", "train_s_per_step.high"),
    "headroom": ("headroom.median", "headroom.low", "headroom.high"),
    "stall": ("stall_fraction.median", "stall_fraction.low", "stall_fraction.high"),
    "tokens/s": ("tokens_per_s.median", "tokens_per_s.low", "tokens_per_s.high"),
    "MFU": ("mfu.median", "mfu.low", "mfu.high"),
    "workers needed": ("workers_needed", "loader_processes"),
    "cores needed": ("cores_needed", "host.cores"),
    "accelerator utilisation": ("accelerator_utilisation.median",),
    "wait for a batch": ("wait_s.p50", "wait_s.p95", "wait_s.p99"),
    "steps done before the next batch": ("sync_probe_fraction",),
    "steps in flight": ("dispatch_depth",),
    "batches in the buffers": ("buffered_batches",),
    "batch": ("batch_bytes",),
    "first batch after": ("first_batch_s",),
    "memory of all processes": ("peak_pss_bytes",),
    "CPU of a batch": ("load_cpu_ratio.median",),
    "compilations": ("compilations",),
    "the harness's own part": ("overhead_fraction",),
    "CPU taken by other programs": ("busy_elsewhere_fraction",),
    "measured for": ("elapsed_s", "step_s.n"),
    "cores it may use": ("host.cores",),
    "memory": ("host.memory_bytes",),
}
WITHOUT_FIGURES: Final = ("device", "processor", "jax", "grain", "step time", "machine")


def read_figures(text: str) -> list[tuple[float, float]]:
    """Return the numbers of a text with their units applied, each with its precision."""
    found = []
    for number, exponent, unit in _FIGURE.findall(text):
        assert not exponent, f"no exponent is read easily: {text!r}"
        value, scale = float(number.replace(",", "")), _UNITS.get(unit, 1.0)
        last_digit = 10.0 ** -len(number.partition(".")[2])
        found.append((value * scale, max(0.51 * last_digit * scale, _DIGITS * abs(value) * scale)))
    return found


def at(document: Document, path: str) -> float:
    """Return the number at a path of a document."""
    value: Any = document
    for name in path.split("."):
        value = value[name]
    return float(value)


def drawn(seed: int) -> Document:
    """Return a measurement whose figures all differ, over many magnitudes."""
    draw = Random(seed)

    def time_s() -> float:
        return 10 ** draw.uniform(-7, 3)

    def interval(median: float) -> Document:
        ends = (median * draw.uniform(0.5, 1), median * draw.uniform(1, 2))
        return {"median": median, "low": ends[0], "high": ends[1], "n": 9}

    names = ("load_s_per_batch", "step_s", "train_s_per_step", "headroom", "load_cpu_ratio")
    fractions = ("stall_fraction", "accelerator_utilisation")
    return examples.measurement() | {
        **{name: interval(time_s()) for name in names},
        **{name: interval(draw.uniform(0.01, 0.5)) for name in fractions},
        "tokens_per_s": interval(10 ** draw.uniform(0, 8)),
        "mfu": interval(10 ** draw.uniform(-4, -0.5)),
        "wait_s": {"p50": time_s(), "p95": time_s(), "p99": time_s(), "cv": 0.1},
        "sync_probe_fraction": draw.random(),
        "dispatch_depth": draw.randrange(1, 40),
        "buffered_batches": 10 ** draw.uniform(0, 5),
        "batch_bytes": draw.randrange(1, 2 ** draw.randrange(2, 33)),
        "first_batch_s": time_s(),
        "overhead_fraction": draw.random(),
        "busy_elsewhere_fraction": draw.random(),
        "elapsed_s": time_s(),
        "compilations": draw.randrange(5000),
        "loader_processes": draw.randrange(200),
        "cores_needed": 10 ** draw.uniform(-2, 3),
        "workers_needed": draw.randrange(1, 2000),
    }


def facts_of(part: Part) -> Iterator[Fact]:
    """Yield every name with its value on a page."""
    yield from part.facts
    for card in part.cards:
        if isinstance(card, Facts):
            yield from card.facts


def shown(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of a document's page."""
    return build_parts(replace_unprintable(document))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.usefixtures("_no_drawings")
def test_every_figure_of_a_measurement_is_the_documents(seed: int) -> None:
    """Each figure has a label, and is the rounded value of its field, in its unit."""
    document = drawn(seed) | {"timeline": [], "distributions": None}
    (part,) = shown(document)
    labels = set()
    for fact in facts_of(part):
        if fact.label in WITHOUT_FIGURES:
            continue
        labels.add(fact.label)
        expected = [at(document, path) for path in FIGURES[fact.label]]
        found = read_figures(f"{fact.value}; {fact.note}")
        if fact.label == "cores needed":  # two digits
            found[0] = (found[0][0], 0.06 * found[0][0])
        assert len(found) == len(expected), fact
        for (value, exact), right in zip(found, expected, strict=True):
            assert value == pytest.approx(right, abs=exact), (fact, right)
    assert labels == set(FIGURES)


@pytest.mark.usefixtures("_no_drawings")
def test_the_steps_are_the_documents() -> None:
    """The captions of the timeline and the distributions agree with their data."""
    document = examples.measurement()
    timeline, spread = document["timeline"], document["distributions"]
    (part,) = shown(document)
    who, every = (card.caption for card in part.cards[:2] if isinstance(card, Drawing))
    first, last = timeline[0], timeline[-1]
    loop_s = last["dispatched_s"] - first["asked_s"]
    waited_s = sum(step["given_s"] - step["asked_s"] for step in timeline)
    expected = [
        [len(timeline), last["done_s"] - first["done_s"], 0.25, waited_s / loop_s],
        [
            spread["steps"],
            *(spread["train_step_s"][percent] for percent in (50, 99, 100)),
            *(spread["wait_s"][percent] for percent in (50, 100)),
        ],
    ]
    for text, right in zip((who, every), expected, strict=True):
        assert [value for value, _ in read_figures(text)] == pytest.approx(right, rel=0.02), text


def test_the_drawn_times_are_the_documents() -> None:
    """Each median is written beside its row."""
    document = examples.measurement()
    (part,) = shown(document)
    (card,) = (card for card in part.cards if card.heading == "What a batch and a step take")
    assert isinstance(card, Drawing)
    written = [text.strip() for text in re.findall(r"<text[^>]*>([^<]+)</text>", card.svg)]
    for name in ("load_s_per_batch", "train_s_per_step", "step_synced_s", "host_s_per_step"):
        assert format_seconds(document[name]["median"]) in written


def leaves(value: Any) -> Iterator[float]:
    """Yield all numbers of a document, including those in texts."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, str):
        yield from (abs(figure) for figure, _ in read_figures(value))
    elif isinstance(value, int | float):
        yield abs(value)


@pytest.mark.usefixtures("_no_drawings")
@pytest.mark.parametrize("name", examples.every_document())
def test_no_table_holds_a_figure_of_its_own(name: str) -> None:
    """Every number in a table is in the document, or is the total of a kind of work."""
    document = examples.every_document()[name]
    totals = (
        [sum(parts.values()) for parts in document["counts"].values()] if name == "work" else []
    )
    known, checked = [*leaves(document), *totals, 0.0, 1.0], 0
    for part in shown(document):
        for table in (getattr(card, "table", card) for card in part.cards):
            for cell in (cell for row in getattr(table, "rows", ()) for cell in row.values()):
                for value, exact in read_figures(f"{cell.text}; {cell.note}"):
                    assert any(abs(abs(value) - figure) <= exact for figure in known), (cell, value)
                    checked += 1
    assert checked or name.startswith(("empty", "plain"))
