"""The study that compares the stand-in with the server, and its page."""

from dataclasses import replace

from perf_tests.studies import storage_server
from perf_tests.studies.records import read_records
from tests.root_process import ROOT

CASE = storage_server.Case("ArrayRecord, ranges", 64, 8, ",concurrent=25")
READING = storage_server.Reading(
    storage="object-store", case=CASE, server_s_per_batch=0.04, stand_in_s_per_batch=0.03,
    s_per_request=0.1, server_cpu_s_per_request=0.0006, client_cpu_s_per_request=0.0004,
    requests_per_element=1.0, bytes_per_element=8000.0,
)  # fmt: skip


def test_a_row_shows_the_median_turn() -> None:
    """A row has the median turn, the busy cores, and the stand-in's limit."""
    slower = replace(READING, server_s_per_batch=0.4)
    [*_, row] = storage_server.format_table([READING, READING, slower])
    assert row == (
        "| ArrayRecord, ranges, Arrow's own 8 threads | 1, 8 | 64 | 100 | 0.040 "
        "| 0.030 (`concurrent=25`) | 0.75 | 0.2 |"
    )


def test_the_documentation_shows_the_recorded_readings() -> None:
    """The page of the study has the table of the file, with every case in it."""
    path = ROOT / "perf_tests" / "studies" / "storage_server.jsonl"
    readings = read_records(path, storage_server.Reading)
    page = (ROOT / "perf_tests" / "studies" / "storage_server.md").read_text(encoding="utf-8")
    assert "\n".join(storage_server.format_table(readings)) in page
    assert {reading.case for reading in readings} == set(storage_server.CASES)
