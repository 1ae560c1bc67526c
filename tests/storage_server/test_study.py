"""The study that compares the stand-in with the server, and its page."""

from perf_tests.studies import storage_server
from perf_tests.studies.records import read_records
from tests.root_process import ROOT


def test_the_documentation_shows_the_recorded_readings() -> None:
    """The page of the study has the table of the file, with every case in it."""
    path = ROOT / "perf_tests" / "studies" / "storage_server.jsonl"
    readings = read_records(path, storage_server.Reading)
    page = (ROOT / "perf_tests" / "studies" / "storage_server.md").read_text(encoding="utf-8")
    assert "\n".join(storage_server.format_table(readings)) in page
    assert {reading.case for reading in readings} == set(storage_server.CASES)
