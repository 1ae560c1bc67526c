"""The table and the document of `netpipe throughput`."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import netpipe
from netpipe.jobs.targets import Target
from netpipe.measuring.training.token_counts import BY_ELEMENTS
from netpipe.reporting.throughput_table import remarks, throughput_table
from netpipe.results import documents
from netpipe.results.measurement import Device, Host
from netpipe.throughput.document import Against, Throughput, throughput_document
from netpipe.throughput.figures import FIGURES
from netpipe.throughput.sessions import Subject
from netpipe.throughput.worker_choice import Candidate, choose
from tests.throughput.tallies import make_tally

SCHEMA = Path(netpipe.__file__).parent / "schemas" / "throughput.1.json"
FAST, SLOW = make_tally(wall_s=0.002, first_batch_s=0.5), make_tally()
CHOSEN = [Subject(Target("a.py", "b"), 2, Path("data"), size, 1024) for size in (128, 256)]
ALONE = Throughput(Path("data"), 4.0, CHOSEN, [[SLOW] * 3, [FAST] * 3])
OTHER = [make_tally(wall_s=16.0, bytes_read=0, counted_by=BY_ELEMENTS)] * 3
CHOICE = choose(
    [
        Candidate(1, (SLOW,) * 3),
        Candidate(2, (FAST,) * 3),
        Candidate(4, (), "over budget", "would take 1000 MB"),
    ],
    10**8,
    1.0,
)
CHOSE = Throughput(Path("data"), 4.0, CHOSEN[:1], [[FAST] * 3], choice=CHOICE)
THEIRS = Subject(Target("their.py", "loader"), 2)
ANY = replace(CHOSE, data=None, combinations=[THEIRS], runs=[OTHER])
BESIDE = replace(ALONE, against=Against("plain.py:loader", [OTHER, OTHER]))


def _document(found: Throughput) -> dict[str, Any]:
    device, host = Device("cpu-x-2", "cpu", "cpu"), Host("x", 2, 2**33)
    document = throughput_document(found, device, host, {"python": "3.11"})
    return json.loads(json.dumps(document, allow_nan=False))  # type: ignore[no-any-return]


def _rows(found: Throughput) -> list[str]:
    console = Console(width=118)
    with console.capture() as capture:
        console.print(throughput_table(found))
    return [line.strip() for line in capture.get().splitlines()]


@pytest.mark.parametrize(
    "found",
    [ALONE, BESIDE, replace(ALONE, runs=[[SLOW], [FAST]]), CHOSE, ANY],
    ids=["alone", "beside another", "one round", "workers chosen", "any loader"],
)
def test_the_document_follows_its_schema(found: Throughput) -> None:
    """The schema describes every field of it, and no other."""
    document, described = _document(found), json.loads(SCHEMA.read_text())
    documents.check_document(document, "throughput.1", "document")
    assert set(document) == set(described["properties"])
    combination = described["$defs"]["MeasuredCombination"]["properties"]
    assert all(set(row) == set(combination) for row in document["combinations"])


def test_the_document_has_the_figures() -> None:
    """Each combination has its figures with intervals and its raw counts; the best is marked."""
    document = _document(ALONE)
    slow, fast = document["combinations"]
    assert slow["tokens_per_s"] == {"median": 2000, "low": 2000, "high": 2000, "n": 3}
    assert fast["tokens_per_s"]["median"] == 4_000_000
    assert (slow["batch_size"], fast["batch_size"]) == (128, 256)
    assert (slow["best"], fast["best"]) == (False, True)
    assert len(slow["runs"]) == document["rounds"] == 3
    assert document["against"] is slow["ratios"] is None


def test_the_document_has_ratios_to_another_loader() -> None:
    """Every figure has a ratio, except where the other loader's is 0."""
    document = _document(BESIDE)
    ratios = document["combinations"][0]["ratios"]
    assert set(ratios) == set(FIGURES)
    assert ratios["tokens_per_s"]["median"] == 4
    assert ratios["bytes_read_per_token"] is None
    assert document["against"]["target"] == "plain.py:loader"
    assert document["against"]["counted_by"] == BY_ELEMENTS
    assert document["against"]["tokens_per_s"]["median"] == 500


def test_one_round_has_no_interval() -> None:
    """The upper end of an interval of one round is null."""
    (combination, _) = _document(replace(ALONE, runs=[[SLOW], [FAST]]))["combinations"]
    assert combination["tokens_per_s"] == {"median": 2000, "low": 0, "high": None, "n": 1}


def test_the_document_has_the_choice() -> None:
    """The choice lists every candidate with its trials; it is null where none was made."""
    choice = _document(CHOSE)["choice"]
    assert (choice["workers"], choice["reason"]) == (2, CHOICE.reason)
    assert (choice["memory_budget_bytes"], choice["seconds"]) == (10**8, 1.0)
    slow, fast, left = choice["candidates"]
    assert [candidate["fate"] for candidate in (slow, fast, left)] == [
        "slower",
        "chosen",
        "over budget",
    ]
    assert fast["tokens_per_s"] == {"median": 4e6, "low": 4e6, "high": 4e6, "n": 3}
    assert fast["peak_pss_bytes"] == 300_000_000
    assert len(slow["runs"]) == 3
    assert (left["tokens_per_s"], left["peak_pss_bytes"], left["runs"]) == (None, None, [])
    assert left["reason"] == CHOICE.candidates[2].reason
    assert _document(ALONE)["choice"] is None


def test_the_choice_is_explained() -> None:
    """The remarks have the reason, and the lines for the configuration file."""
    first, *_, last = remarks(CHOSE)
    assert (first, last) == (CHOICE.reason, "[pipeline]\nworkers = 2\nworker_buffer_batches = 1")


def test_any_loader_is_told_in_examples() -> None:
    """Without a segmentation the table has examples, the batch's own size and the workers given."""
    heading, _, row = (" ".join(line.split()) for line in _rows(ANY)[2:5])
    assert heading.startswith("batch workers examples/s examples/CPU s batches/s PSS")
    assert row.startswith("10 * 2 25 (25-25) 50 (50-50) 2.5 300 MB")
    assert list(remarks(ANY))[-1] == "num_workers=2, per_worker_buffer_size=1"
    (own,) = _document(replace(ANY, combinations=[replace(THEIRS, workers=None)]))["combinations"]
    assert (own["loader"], own["workers"], own["batch_size"]) == ("their.py:loader", None, None)


def test_the_table_marks_the_best() -> None:
    """Each combination has a row, and a remark explains the mark."""
    rows = [row.split() for row in _rows(ALONE)]
    assert ["128", "2", "2", "k", "(2-2)", "1", "k", "(1-1)"] in [row[:8] for row in rows]
    assert ["256", "*", "2", "4", "M", "(4-4)", "1", "k"] in [row[:8] for row in rows]
    (remark,) = remarks(ALONE)
    assert remark.startswith("* ")
    assert remark.endswith(CHOSEN[1].label)


def test_the_table_has_ratios() -> None:
    """Ratios are below each combination; the other loader is in the last row."""
    rows = [" ".join(row.split()) for row in _rows(BESIDE)]
    for start in (
        "/ other 4 x (4-4) 1 x (1-1) 4 x 1 x 1 x - 1 x 1 x",
        "/ other 8000 x (8000-8000) 1 x (1-1) 8000 x",
        "other 500 (500-500) 1 k (1-1) 2.5 20.0% 50.0% 0 300 MB 1.5 s",
    ):
        assert sum(row.startswith(start) for row in rows) == 1
    remark = list(remarks(BESIDE))[1]
    assert remark.startswith("other: plain.py:loader;")
    assert BY_ELEMENTS in remark


def test_the_table_of_one_round_has_no_intervals() -> None:
    """An interval without an upper end is not printed."""
    rows = _rows(replace(ALONE, runs=[[SLOW], [FAST]]))
    assert rows
    assert not any("(" in row or "inf" in row for row in rows)


def test_the_table_fits_a_terminal() -> None:
    """Usual figures fit into lines of 118 columns; wider ones are not cut off."""
    runs = [
        make_tally(
            tokens=tokens, peak_pss_bytes=1_234_000_000, wall_s=0.4, cpu_s=0.8, slots=5_000_000
        )
        for tokens in (4_560_000, 4_321_000, 4_111_000)
    ]
    other = [replace(run, wall_s=111.0, cpu_s=101.0) for run in runs]
    found = replace(BESIDE, combinations=CHOSEN[:1], runs=[runs], against=Against("a:b", [other]))
    rows = [" ".join(row.split()) for row in _rows(found)]
    assert any("10.8 M (9.27-12.6) 5.4 M (4.63-6.32) 100" in row for row in rows)
    assert any("/ other 278 x (278-278) 126 x (126-126) 278 x" in row for row in rows)
    slow = [replace(run, wall_s=11_111.0) for run in runs]
    wide = replace(found, against=Against("a:b", [slow]))
    assert not any("…" in row for row in _rows(wide))


def test_the_best_has_the_most_tokens_per_second() -> None:
    """The median decides, not one lucky round."""
    lucky = [make_tally(wall_s=wall_s) for wall_s in (1.0, 5.0, 5.0)]
    assert replace(ALONE, runs=[lucky, [make_tally(wall_s=4.0)] * 3]).best == 1
