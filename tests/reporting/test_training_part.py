"""The page of a watched run."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netpipe.reporting.content import Drawing, Notes, Part
from netpipe.reporting.parts import build_parts
from netpipe.reporting.rendering import read_document, render_page
from netpipe.reporting.tones import Tone
from tests.fuzz.mutations import damaged, mutated_json, odd_values, read_or_refuse
from tests.reporting.examples import HOSTILE
from tests.watching.windows import line, make_window, write_log


def part_of(path: Path, *idle: float | None) -> Part:
    """Return the part of a run whose device is idle for these fractions of its windows."""
    windows = [make_window(number, each) for number, each in enumerate(idle)]
    (part,) = build_parts(read_document(write_log(path / "run.jsonl", *windows)))
    return part


def labels(part: Part) -> list[str]:
    """Return the verdicts of a part, one after the other."""
    (notes,) = (card for card in part.cards if isinstance(card, Notes))
    return [note.label for note in notes.notes]


@pytest.mark.usefixtures("_no_drawings")
def test_a_run_that_has_become_slow_is_not_healthy(tmp_path: Path) -> None:
    """The headline is the worse of the whole run and the latest verdict; its start is told."""
    part = part_of(tmp_path, *[0.0] * 90, *[0.4] * 5)
    assert (part.headline.tone, part.headline.word) == (Tone.BAD, "Loader-bound")
    assert part.headline.sentence.startswith("The device is idle while the loop waits for 40.0%")
    assert labels(part) == ["healthy", "loader-bound"]
    (notes,) = (card for card in part.cards if isinstance(card, Notes))
    assert notes.notes[1].text.startswith("from 14 Nov 22:28 UTC and batch 18,000 on: the device")
    facts = {fact.label: (fact.value, fact.note) for fact in part.facts}
    assert facts["batches"] == ("19,000", "from batch 0 on")
    assert facts["device idle"][0] == "2.1%"
    assert facts["memory"] == ("200 MB", "200 MB at first")


@pytest.mark.usefixtures("_no_drawings")
def test_memory_that_keeps_growing_is_reported(tmp_path: Path) -> None:
    """The growth stands beside the memory at first."""
    windows = (
        make_window(number, 0.0, memory_bytes=(100 + number) * 10**6) for number in range(12)
    )
    (part,) = build_parts(read_document(write_log(tmp_path / "run.jsonl", *windows)))
    (memory,) = (fact for fact in part.facts if fact.label == "memory")
    assert (memory.value, memory.note) == ("111 MB", "100 MB at first, grows by 360 MB an hour")


@pytest.mark.usefixtures("_no_drawings")
def test_a_moment_does_not_make_the_headline(tmp_path: Path) -> None:
    """Two slow windows at the end are a note; an open verdict between two equal ones is not."""
    part = part_of(tmp_path, *[0.0] * 40, 0.06, *[0.0] * 40, 0.4, 0.4)
    assert part.headline.word == "Healthy"
    assert labels(part) == ["healthy", "loader-bound"]
    assert part_of(tmp_path, None, None).headline.word == "Inconclusive"


def test_the_run_is_drawn(tmp_path: Path) -> None:
    """The scale fits the length of the run, and windows of a long run are merged."""
    short, long = (
        next(card.svg for card in part_of(tmp_path, *[0.3] * count).cards if type(card) is Drawing)
        for count in (30, 1000)
    )
    assert "2 min" in short
    assert "1 h" in long
    assert "Waiting for data; at most 40.0%" in short
    assert long.count("<path") < 7 * short.count("<path")


def test_a_page_escapes_the_names_of_a_log(tmp_path: Path) -> None:
    """A hostile name of a host is text."""
    path = write_log(tmp_path / "run.jsonl", make_window(host=HOSTILE.replace("\ud800", "")))
    page = render_page([read_document(path)], names=[HOSTILE])
    assert "<script" not in page
    assert "<img" not in page


LOG = line(make_window()) + line(make_window(1, None))
WINDOW = json.loads(line(make_window()))
MOST = settings().max_examples


@settings(max_examples=MOST)
@given(data=st.data())
def test_a_log_is_refused_or_read(tmp_path: Path, data: st.DataObject) -> None:
    """No log gives a traceback."""
    path = tmp_path / "run.jsonl"
    odd = mutated_json(WINDOW).map(lambda text: f"{text}\n{LOG}".encode())
    path.write_bytes(data.draw(st.one_of(odd, damaged(LOG.encode()))))
    read_or_refuse(read_document, path)


@settings(max_examples=MOST // 20)
@given(data=st.data())
def test_a_log_is_refused_or_drawn(tmp_path: Path, data: st.DataObject) -> None:
    """Windows that fit the schema can be drawn, however odd they are."""
    path = tmp_path / "run.jsonl"
    path.write_text(LOG + data.draw(odd_values(WINDOW)) + "\n")
    if document := read_or_refuse(read_document, path):
        assert render_page([document]).endswith("</html>")
