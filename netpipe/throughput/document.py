"""The runs of one call of `netpipe throughput`, and their document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netpipe.results.measurement import Device, Host, converter
from netpipe.throughput.figures import (
    FIGURES,
    Tally,
    over_rounds,
    ratio,
    speed_figure,
)
from netpipe.throughput.sessions import Subject
from netpipe.throughput.worker_choice import Candidate, WorkerChoice


@dataclass(frozen=True)
class Against:
    """Another loader, and its runs beside each combination."""

    target: str
    runs: Sequence[Sequence[Tally]]

    @property
    def all_runs(self) -> list[Tally]:
        """Its runs beside all combinations."""
        return [run for runs in self.runs for run in runs]


@dataclass(frozen=True)
class Throughput:
    """The result of one call: the runs of each combination, and how workers were chosen, if so."""

    data: Path | None
    seconds: float
    combinations: Sequence[Subject]
    runs: Sequence[Sequence[Tally]]
    against: Against | None = None
    choice: WorkerChoice | None = None

    @property
    def best(self) -> int:
        """The index of the fastest combination."""
        medians = [over_rounds(speed_figure(runs), runs).median for runs in self.runs]
        return medians.index(max(medians))


def throughput_document(
    found: Throughput, device: Device, host: Host, versions: Mapping[str, str]
) -> dict[str, Any]:
    """Return the `netpipe.throughput/1` document."""
    against, choice = found.against, found.choice
    rows = zip(found.combinations, found.runs, strict=True)
    document: dict[str, Any] = converter().unstructure(
        {
            "schema": "netpipe.throughput/1",
            "device": {**vars(device), "emulated": device.emulated},
            "host": host,
            "versions": dict(versions),
            "data": found.data and str(found.data),
            "seconds": found.seconds,
            "rounds": len(found.runs[0]),
            "combinations": [
                {
                    **combination.settings,
                    "best": index == found.best,
                    **_figures(runs),
                    "ratios": against
                    and {name: ratio(name, runs, against.runs[index]) for name in FIGURES},
                }
                for index, (combination, runs) in enumerate(rows)
            ],
            "against": against and {"target": against.target, **_figures(against.all_runs)},
            "choice": choice
            and {**vars(choice), "candidates": [*map(_candidate, choice.candidates)]},
        }
    )
    return document


def _candidate(candidate: Candidate) -> dict[str, Any]:
    runs, fields = candidate.runs, dict(vars(candidate))
    return {
        "fate": fields.pop("status"),
        **fields,
        "tokens_per_s": over_rounds("tokens_per_s", runs) if runs else None,
        "peak_pss_bytes": candidate.peak_pss_bytes if runs else None,
    }


def _figures(runs: Sequence[Tally]) -> dict[str, Any]:
    figures = {name: over_rounds(name, runs) for name in FIGURES}
    return {**figures, "counted_by": runs[0].counted_by, "runs": runs}
