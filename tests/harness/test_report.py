"""What programs and people are shown of a measurement."""

from io import StringIO

from rich.console import Console

from netpipe.harness.measurement import Finding
from netpipe.harness.report import measurement_document, verdict_table
from netpipe.harness.stall import judge
from tests.harness.measurements import CPU, EMULATED, make_measurement


def test_the_document_holds_the_verdict_and_everything_found() -> None:
    """Beside the figures stand why it waits, the protocol's findings and the remarks."""
    measurement = make_measurement(
        load_s=0.040,
        train_s=0.040,
        findings=(Finding("loader-restarted", "twice"),),
        busy_elsewhere_fraction=0.5,
    )
    verdict = judge(measurement)
    document = measurement_document(measurement, verdict)
    assert document["schema"] == "netpipe.measurement/1"
    assert document["verdict"] == {
        "kind": "loader-bound",
        "message": verdict.message,
        "evidence": list(verdict.evidence),
        "next": verdict.next,
    }
    assert [one["name"] for one in document["findings"]] == ["loader-restarted", "busy-host"]


def test_the_document_says_what_is_emulated() -> None:
    """A derived step time is never taken for a measured one."""
    for device in (CPU, EMULATED):
        measurement = make_measurement(device=device)
        document = measurement_document(measurement, judge(measurement))
        assert document["device"]["emulated"] is (device is EMULATED)


def test_the_table_has_a_row_for_each() -> None:
    """A row holds the times, the ratios and the kind; what is emulated is marked as derived."""
    measurements = [
        make_measurement(device=CPU),
        make_measurement(device=EMULATED, load_s=0.060, train_s=0.060),
    ]
    stream = StringIO()
    Console(file=stream, width=118).print(verdict_table(measurements))
    rows = [line.split() for line in stream.getvalue().splitlines()]
    assert ["cpu-intel-xeon-2", "10", "ms", "30", "ms", "30", "ms"] in [row[:7] for row in rows]
    derived = next(row for row in rows if row and row[0] == EMULATED.key)
    assert derived[1] == "(derived)"
    assert derived[-3:] == ["0.50", "50.0%", "loader-bound"]
