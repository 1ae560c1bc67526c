"""The study of goodput; `tox -e goodput` has the library."""

from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from netpipe.results.fields import Interval
from perf_tests.studies.goodput import KEPT, LOADERS, Entries, Trial, calculate, format_table, main
from perf_tests.studies.records import read_records
from tests.root_process import ROOT

needs_library = pytest.mark.skipif(
    find_spec("ml_goodput_measurement") is None, reason="tox -e goodput runs these tests"
)
STARVED = Trial(
    "starved", 300, 0.1, "2026-11-28", 90.0, "abc", "a model", "a library", 0.99, 0.003, 0.98, 0.98,
    Interval(0.66, 0.64, 0.68, 1800), "loader-bound", 0.67,
)  # fmt: skip


@needs_library
@pytest.mark.parametrize("load_s", [0.5, 30.0])
def test_the_library_charges_the_first_load_only(load_s: float) -> None:
    """Goodput does not depend on later loads, however long they take; these are listed."""
    from ml_goodput_measurement import goodput

    entries, steps, now_s = Entries(), 11, 0.0
    recorder = goodput.GoodputRecorder("run", "log", logging_enabled=True, cloud_logger=entries)

    def now() -> datetime:
        return datetime.fromtimestamp(now_s, UTC)

    recorder.record_job_start_time(now())
    for number in range(steps):
        recorder.record_data_loading_start_time(now())
        now_s += load_s if number else 20.0
        recorder.record_data_loading_end_time(now())
        recorder.record_step_start_time(number, now())
        now_s += 10.0
    recorder.record_job_end_time(now())
    fractions = [20.0 / now_s, (steps - 1) * load_s / now_s]
    assert calculate(entries) == pytest.approx((1 - fractions[0], *fractions))


@needs_library
def test_each_loader_is_tried(tmp_path: Path) -> None:
    """A round adds a trial of each loader to the file, and the table has a row for each."""
    file = tmp_path / "trials.jsonl"
    words = ["--rounds", "1", "--steps", "20", "--step-ms", "10", "--trials", str(file)]
    printed = CliRunner().invoke(main, words, catch_exceptions=False).stdout.splitlines()
    assert [trial.loader for trial in read_records(file, Trial)] == [*LOADERS]
    assert [line.split(" | ")[0] for line in printed[2:]] == [f"| {name}" for name in LOADERS]


def test_the_table_has_medians_and_extremes() -> None:
    """Each loader has a row with the figures of its trials."""
    others = replace(STARVED, goodput_fraction=0.97), replace(STARVED, goodput_fraction=0.98)
    [row] = [*format_table([STARVED, *others])][2:]
    assert row.startswith("| starved | 98.0% (97.0 to 99.0) | 0.3% (0.3 to 0.3) |")
    assert row.endswith("| 67.0% (67.0 to 67.0) | loader-bound |")


def test_the_page_has_the_table_of_the_trials() -> None:
    """docs/goodput.md states the figures of the recorded trials, and their library."""
    page = (ROOT / "docs" / "goodput.md").read_text(encoding="utf-8")
    trials = read_records(KEPT, Trial)
    assert "\n".join(format_table(trials)) in page
    assert all(trial.library in page for trial in trials)
