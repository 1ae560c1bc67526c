"""Measurements as JSON, and back."""

import json
from typing import Any

import pytest

from netpipe.errors import InputError
from netpipe.results.measurement import SCHEMA, Finding, parse_measurement
from tests.measurements import CPU, EMULATED, GPU, make_measurement


@pytest.mark.parametrize("rounds", [2, 3, 9])
def test_a_measurement_survives_json(rounds: int) -> None:
    """All fields are read back, others are ignored, and an unbounded end is null in JSON."""
    measurement = make_measurement(
        rounds=rounds,
        step_transfer_s=None,
        buffered_batches=None,
        findings=(Finding("loader-restarted", "it ended twice"),),
    )
    document = json.loads(json.dumps(measurement.to_document(), allow_nan=False))
    assert parse_measurement(document | {"later": 1}, "a file") == measurement
    assert (document["step_s"]["high"] is None) is (rounds == 2)


def _without(name: str) -> dict[str, Any]:
    document = make_measurement().to_document()
    del document[name]
    return document


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, f"{SCHEMA}; found None"),
        ({**_without("step_s"), "schema": "netpipe.measurement/2"}, "netpipe.measurement/2"),
        (_without("step_s"), "step_s"),
        ({**_without("step_s"), "step_s": {"median": 1.0, "low": 1.0, "n": 9}}, "step_s"),
        ({**_without("step_s"), "step_s": 0.03}, "step_s"),
        ({**_without("step_s"), "step_s": None}, "step_s"),
        ({**_without("elapsed_s"), "elapsed_s": "long"}, "elapsed_s"),
    ],
)
def test_a_wrong_document_is_refused(document: dict[str, Any], words: str) -> None:
    """The error names the file and the wrong or missing field."""
    with pytest.raises(InputError, match=r"runs/here\.json") as caught:
        parse_measurement(document, "runs/here.json")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_platform_says_what_a_device_is() -> None:
    """Only a clock is emulated, and only a CPU shares its cores with the loader."""
    assert [device.emulated for device in (GPU, CPU, EMULATED)] == [False, False, True]
    assert [device.shares_host_cores for device in (GPU, CPU, EMULATED)] == [False, True, False]
