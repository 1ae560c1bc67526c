"""`netpipe measure --trace DIR`: the folder, and the path in the output."""

from dataclasses import replace
from pathlib import Path

import pytest

from netpipe.jobs import parent
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.results.measurement import Measurement
from tests.command import Netpipe, document
from tests.measurements import make_measurement


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[MeasureRequest]:
    """The requests of sessions that keep their traces."""
    requests: list[MeasureRequest] = []

    def measured(_: object, request: MeasureRequest, **__: object) -> Measurement:
        requests.append(request)
        trace = str(Path(request.trace, "h200-x1.trace.json.gz")) if request.trace else ""
        return replace(make_measurement(), trace=trace)

    monkeypatch.setattr(parent, "run_measurement", measured)
    return requests


def test_the_trace_is_kept_in_a_folder_of_the_users(
    netpipe: Netpipe, asked: list[MeasureRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing folder is made, and one line has the full path of the file."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ("long" * 40)
    result = netpipe("measure", "--loader", "a:b", "--step", "a:c", "--trace", folder.name)
    assert result.exit_code == 0, result.stderr
    assert [request.trace for request in asked] == [str(folder)]
    assert folder.is_dir()
    assert f"trace: {folder}/h200-x1.trace.json.gz " in result.stdout


def test_the_trace_is_in_the_document(
    netpipe: Netpipe, asked: list[MeasureRequest], tmp_path: Path
) -> None:
    """The document has the path; without the flag there is none."""
    found = netpipe("measure", "--loader", "a:b", "--step", "a:c", "--json", "--trace", tmp_path)
    assert document(found, "measurement.1.json")["trace"] == f"{tmp_path}/h200-x1.trace.json.gz"
    found = netpipe("measure", "--loader", "a:b", "--step", "a:c", "--json")
    assert document(found, "measurement.1.json")["trace"] == ""
    assert [bool(request.trace) for request in asked] == [True, False]


def test_a_folder_that_cannot_be_written_to_is_refused_first(
    netpipe: Netpipe, asked: list[MeasureRequest], tmp_path: Path
) -> None:
    """An unwritable trace folder is refused before anything is measured."""
    (tmp_path / "file").touch()
    found = netpipe("measure", "--loader", "a:b", "--step", "a:c", "--trace", tmp_path / "file")
    assert found.exit_code == 2
    assert "file: --trace" in found.stderr
    assert asked == []
