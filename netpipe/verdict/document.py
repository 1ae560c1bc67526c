"""The printed document of a measurement, and its label in text."""

from dataclasses import asdict
from typing import Annotated, Any, TypedDict

from netpipe.results.fields import Amount, Must, PositiveCount, Text
from netpipe.results.measurement import Device, Measurement
from netpipe.verdict.decision import find_remarks
from netpipe.verdict.kinds import Verdict, VerdictKind
from netpipe.verdict.worker_sizing import cores_needed, workers_needed


class PrintedMeasurement(TypedDict, total=False):
    """The fields of a printed measurement that a session's result or a baseline does not have."""

    #: `emulated` says whether the step only takes time, without computing.
    device: Annotated[Device, Must(properties={"emulated": {"type": "boolean"}})]
    verdict: Verdict  #: Why training waits. Absent in a session's result and in a baseline.
    #: Worker processes that would keep the step fed at 80% use; null if they are more than the
    #: host's cores, or if the verdict is inconclusive. Present only with a verdict.
    workers_needed: PositiveCount | None
    #: Cores that loading keeps busy at one batch a step; null if not measured, or if the verdict
    #: is inconclusive. Present only with a verdict.
    cores_needed: Amount | None
    #: The test that requested it first. Present only in a run of pytest.
    test: Text


def measurement_document(measurement: Measurement, verdict: Verdict) -> dict[str, Any]:
    """Return the `netpipe.measurement/1` document of a measurement and its verdict."""
    document = measurement.to_document()
    document["device"]["emulated"] = measurement.device.emulated
    findings = dict.fromkeys((*measurement.findings, *find_remarks(measurement, verdict)))
    is_decided = verdict.kind != VerdictKind.INCONCLUSIVE
    return {
        **document,
        "verdict": {**asdict(verdict), "evidence": list(verdict.evidence)},
        "findings": list(map(asdict, findings)),
        "workers_needed": workers_needed(measurement) if is_decided else None,
        "cores_needed": cores_needed(measurement) if is_decided else None,
    }


def subject_label(measurement: Measurement) -> str:
    """Return the device and the storage, marked "(derived)" if times were not measured."""
    device, storage = measurement.device, measurement.storage
    in_storage = f" in {storage}" if storage else ""
    return f"{device.key}{in_storage}{' (derived)' * (device.emulated or bool(storage))}"
