"""The JSON document of a run, `netpipe.run/1`: every measurement, verdict and comparison."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from netpipe.gate.comparison import why_not_comparable
from netpipe.gate.metrics import METRICS
from netpipe.gate.waivers import Waiver
from netpipe.results.measurement import Measurement
from netpipe.suite.acceptance import Acceptance
from netpipe.suite.gate_results import GateResult
from netpipe.suite.run import Run
from netpipe.verdict.decision import judge
from netpipe.verdict.report import measurement_document
from netpipe.whole_file import write_whole


def write_json(run: Run, path: Path) -> None:
    """Write the document of a run.

    Raises:
        InputError: The file cannot be written.
    """
    text = json.dumps(run_document(run), indent=1, allow_nan=False) + "\n"
    write_whole(path, text, "--netpipe-json")


def run_document(run: Run) -> dict[str, Any]:
    """Return the `netpipe.run/1` document of a run."""
    sessions = (session for subject in run.sessions.values() for session in subject)
    return {
        "schema": "netpipe.run/1",
        "measurements": list(map(_measurement, sessions)),
        "lints": list(run.lints.values()),
        "accepted": _accepted(run.acceptance),
        "comparisons": [_comparison(run, result) for result in run.results],
        "against": run.against
        and {
            "ref": run.against.commit.ref,
            "commit": run.against.commit.sha,
            "pairs": [
                {"base": _measurement(pair.base), "now": _measurement(pair.now)}
                for pair in run.against.all_pairs()
            ],
        },
    }


def _measurement(measurement: Measurement) -> dict[str, Any]:
    return measurement_document(measurement, judge(measurement))


def _comparison(run: Run, result: GateResult) -> dict[str, Any]:
    comparison = result.comparison
    return {
        "benchmark": result.benchmark,
        "device": result.now.device.key,
        "quantity": result.quantity,
        "against": run.against.commit.ref if run.against and result.against else None,
        "metric": comparison.metric,
        "outcome": comparison.outcome.value,
        "now": comparison.now,
        "baseline": comparison.then,
        "is_reported_only": comparison.is_reported_only,
        "worse_ratio": comparison.worse_ratio,
        "reason": comparison.reason,
        "oldest": comparison.oldest or None,
        "waiver": result.waiver and _waiver(result.waiver),
        "history": list(_history(run, result)),
    }


def _history(run: Run, result: GateResult) -> Iterator[dict[str, Any]]:
    """Yield the values of a metric in the comparable baselines of its device, the oldest first."""
    metric = METRICS.get(result.comparison.metric)
    if metric is None or result.against:
        return
    for baseline in run.baselines_of(result.now.device.key):
        sessions = baseline.sessions.get(result.benchmark, ())
        if sessions and not why_not_comparable(metric, result.now, sessions[0]):
            yield {
                "baseline": baseline.path.name,
                "recorded": baseline.recorded,
                "value": median(map(metric.value, sessions)),
            }


def _accepted(acceptance: Acceptance) -> dict[str, Any]:
    return {
        "commit": acceptance.commit and acceptance.commit.sha,
        "baseline_changes": [change.to_document() for change in acceptance.changes],
        "waivers": [
            {**_waiver(waiver), "is_added": waiver in acceptance.added}
            for waiver in acceptance.waivers
        ],
    }


def _waiver(waiver: Waiver) -> dict[str, Any]:
    return {**asdict(waiver), "expires": waiver.expires.isoformat()}
