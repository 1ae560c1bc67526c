"""The document of a measurement, its table, and the lines below it."""

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from netpipe.cli.measure import print_verdicts
from netpipe.reporting.measurement_table import figure_lines, verdict_table
from netpipe.results.measurement import Finding, Measurement
from netpipe.results.statistics import median_interval
from netpipe.verdict.decision import judge
from netpipe.verdict.document import measurement_document
from tests.measurements import CPU, EMULATED, make_measurement, spread


def test_the_document_holds_the_verdict_and_everything_found() -> None:
    """The document has the figures, the verdict, the protocol's findings and the remarks."""
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
    assert [finding["name"] for finding in document["findings"]] == [
        "loader-restarted",
        "busy-host",
    ]


def test_the_table_has_a_row_for_each() -> None:
    """A row holds times, ratios, rates and the kind; what is emulated is marked as derived."""
    measurements = [
        make_measurement(device=CPU, tokens_per_s=median_interval([512.3]), tokens_unit="examples"),
        make_measurement(
            device=EMULATED, load_s=0.060, train_s=0.060,
            tokens_per_s=median_interval([52345.0]), mfu=median_interval([0.1538]),
        ),
        make_measurement(),
    ]  # fmt: skip
    stream = StringIO()
    Console(file=stream, width=118).print(verdict_table(measurements))
    rows = [line.split() for line in stream.getvalue().splitlines()]
    assert "stall tokens/s MFU verdict" in [" ".join(row[-4:]) for row in rows]
    cpu = next(row for row in rows if row and row[0] == "cpu-intel-xeon-2")
    assert cpu[1:7] == ["10", "ms", "30", "ms", "30", "ms"]
    assert cpu[-4:] == ["512", "examples", "-", "healthy"]
    derived = next(row for row in rows if row and row[0] == EMULATED.key)
    assert derived[1] == "(derived)"
    assert derived[-6:] == ["0.50", "50.0%", "52.3", "k", "15%", "loader-bound"]
    unknown = next(row for row in rows if row and row[0] == "h200-x1")
    assert unknown[-3:] == ["-", "-", "healthy"]


@pytest.mark.parametrize(
    ("rates", "per_s", "mfu"),
    [
        (
            {"tokens_per_s": median_interval([5e4, 5.2e4, 5.4e4]), "mfu": median_interval([0.15])},
            "tokens/s: 52 k (46.3 k to 58.3 k)",
            "MFU: 15% (only 1 round)",
        ),
        (
            {
                "tokens_per_s": median_interval([512.0] * 6),
                "tokens_unit": "examples",
                "not_known": {"mfu": "no peak is known for cpu-2"},
            },
            "tokens/s: 512 examples (512 examples to 512 examples)",
            "MFU: not known: no peak is known for cpu-2",
        ),
        (
            {},
            "tokens/s: not known: an older netpipe did not measure it",
            "MFU: not known: an older netpipe did not measure it",
        ),
    ],
    ids=["known", "examples", "older"],
)
def test_a_rate_that_is_not_known_says_why(
    rates: dict[str, Any], per_s: str, mfu: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown rate shows the reason instead of 0."""
    print_verdicts([make_measurement(**rates)])
    assert f"{per_s}; {mfu}" in " ".join(capsys.readouterr().out.split())


def test_the_document_says_what_is_needed() -> None:
    """The document has the workers and cores that would keep the step fed."""
    measurement = make_measurement(load_s=0.040, train_s=0.040, load_cpu_s=0.060)
    document = measurement_document(measurement, judge(measurement))
    assert (document["workers_needed"], document["cores_needed"]) == (2, 2.0)


def test_nothing_is_advised_without_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """An inconclusive measurement gets no advice in any output."""
    load_s = spread(0.035, 0.040, 0.045)
    measurement = make_measurement(load_s=load_s, train_s=load_s)
    assert judge(measurement).kind == "loader-bound"
    assert measurement_document(measurement, judge(measurement))["workers_needed"] == 2
    open_ = replace(measurement, drained=False)
    document = measurement_document(open_, judge(open_))
    assert document["verdict"]["kind"] == "inconclusive"
    assert (document["workers_needed"], document["cores_needed"]) == (None, None)
    print_verdicts([measurement])
    assert "try another number of workers: 2 (has 0)" in capsys.readouterr().out
    print_verdicts([open_])
    printed = capsys.readouterr().out
    assert "inconclusive" in printed
    assert "(has" not in printed


def last_line(measurement: Measurement) -> str:
    """Return the last line of figures below the table."""
    return list(figure_lines(measurement, judge(measurement)))[-1]


def test_a_host_with_too_few_cores_is_named() -> None:
    """The line shows when the host has fewer cores than loading needs."""
    enough = make_measurement(load_cpu_s=0.060, loader_processes=2)
    assert last_line(enough) == "workers needed: 1 (has 2); cores needed: 2 (has 2)"
    beyond = make_measurement(load_cpu_s=0.063, loader_processes=2)
    assert last_line(beyond).endswith("cores needed: 2.1 (more than this host has: 2)")
    unknown = replace(enough, rounds=replace(enough.rounds, load_cpu_s_per_batch=()))
    assert last_line(unknown) == "workers needed: 1 (has 2)"
    assert "needed" not in last_line(replace(unknown, loader_processes=1))


def test_a_narrow_table_keeps_the_verdict() -> None:
    """In a narrow terminal the device takes two lines, and the verdict is not cut."""
    device = replace(EMULATED, key="emulated-h100-sxm-80gb-x8-25gb-s")
    stream = StringIO()
    table = verdict_table([make_measurement(device=device, load_s=0.060, train_s=0.060)])
    Console(file=stream, width=110).print(table)
    assert "loader-bound" in stream.getvalue()
    assert "(derived)" in stream.getvalue()
    assert "60 ms" in stream.getvalue()


def test_a_narrow_terminal_wraps_only_the_device() -> None:
    """The row of the README's machine fits into 100 columns."""
    tokens_per_s, mfu = median_interval([52345.0]), median_interval([0.15])
    table = verdict_table([make_measurement(device=CPU, tokens_per_s=tokens_per_s, mfu=mfu)])
    assert Console(width=200).measure(table).maximum <= 100
