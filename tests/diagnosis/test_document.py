"""The document of a diagnosis."""

import json
from math import inf
from typing import Any

import pytest

from netpipe.diagnosis.diagnosis import RESOURCES, Bottleneck, Findings, Reads, ReadsInFlight
from netpipe.errors import InputError
from netpipe.results.fields import converter
from netpipe.results.measurement import Interval
from netpipe.results.start_up import StartUp
from tests.diagnosis.examples import VERIFIED, diagnosis, findings, interval, stage
from tests.measurements import make_measurement

READS = Reads(4, (ReadsInFlight(4, 0.040, 100.0), ReadsInFlight(16, 0.040, 400.0)), 2e4, "")
FULL = findings(
    verified=VERIFIED, unverified="", stages=(stage(without_s_per_batch=interval(0.01)),),
    start_up=StartUp(1.0, 2.0, None, 4.0), reads=READS, storage="object-store",
)  # fmt: skip


def through_json(document: Any) -> Any:
    """Send a document to another process."""
    return json.loads(json.dumps(document, allow_nan=False))


UNBOUNDED = findings(load_s_per_batch=Interval(0.02, 0.0, inf, 1))


@pytest.mark.parametrize("found", [findings(), FULL, UNBOUNDED], ids=["bare", "full", "unbounded"])
def test_findings_are_read_back(found: Any) -> None:
    """All digits arrive, and an infinity, which JSON does not have."""
    assert converter().structure(through_json(found.to_document()), Findings) == found


def test_a_document_is_valid() -> None:
    """A document may have a step and a prediction that was tried."""
    for found in (
        diagnosis(),
        diagnosis(findings=FULL, measurement=make_measurement()),
    ):
        document = through_json(found.to_document())
        assert document["schema"] == "netpipe.diagnosis/1"
        assert document["sentence"] == found.sentence
    assert document["measurement"]["schema"] == "netpipe.measurement/1"
    assert document["reads"]["levels"][1]["reads_per_s"] == 400.0
    assert document["reads"]["limit"] == ""
    assert document["start_up"]["shipping_s"] == 4.0
    assert document["start_up"]["first_read_s"] is None


def test_a_document_that_is_not_valid_is_never_given() -> None:
    """An unknown resource is a mistake in the code."""
    bound = findings(bottleneck=Bottleneck(None, "luck", 0.0, "why"))
    with pytest.raises(InputError, match="luck"):
        diagnosis(findings=bound).to_document()


@pytest.mark.parametrize("resource", RESOURCES)
def test_every_resource_is_one_of_the_schema(resource: str) -> None:
    """The schema allows all resources of the code."""
    bound = findings(bottleneck=Bottleneck(None, resource, 0.0, "why"))
    assert diagnosis(findings=bound).to_document()["bottleneck"]["resource"] == resource
