"""The table and the document that `netpipe throughput` prints."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from netpipe.results.measurement import Device, Host, Interval, converter
from netpipe.results.units import (
    format_amount,
    format_megabytes,
    format_number,
    format_percent,
    format_seconds,
    scale_of,
)
from netpipe.throughput.figures import FIGURES, Tally, over_rounds, ratio
from netpipe.throughput.sessions import Combination
from netpipe.throughput.worker_choice import Candidate, WorkerChoice
from netpipe.verdict.report import new_table

_OTHER: Final = "other"
_MARK: Final = " *"


@dataclass(frozen=True)
class Against:
    """Another loader that was measured in the same rounds, and what its runs counted."""

    target: str
    runs: Sequence[Tally]


@dataclass(frozen=True)
class Throughput:
    """What was measured in one call: the runs of each combination, of some seconds.

    `choice` is None where the number of workers was given.
    """

    data: Path
    seconds: float
    combinations: Sequence[Combination]
    runs: Sequence[Sequence[Tally]]
    against: Against | None = None
    choice: WorkerChoice | None = None

    @property
    def best(self) -> int:
        """The index of the combination with the most tokens per second."""
        medians = [over_rounds("tokens_per_s", runs).median for runs in self.runs]
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
            "data": str(found.data),
            "seconds": found.seconds,
            "rounds": len(found.runs[0]),
            "combinations": [
                {
                    "batch_size": combination.pipeline.batch_size,
                    "workers": combination.pipeline.workers,
                    "sequence_length": combination.pipeline.sequence_length,
                    "best": index == found.best,
                    **_figures(runs),
                    "ratios": against
                    and {name: ratio(name, runs, against.runs) for name in FIGURES},
                }
                for index, (combination, runs) in enumerate(rows)
            ],
            "against": against and {"target": against.target, **_figures(against.runs)},
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


def throughput_table(found: Throughput) -> Table:
    """Return one row for each combination, the best marked, and its ratios below it."""
    table = new_table("loader speed")
    # Otherwise its ten columns do not fit.
    table.padding = (0, 1, 0, 0)
    for heading in ("batch", "workers", *_COLUMNS):
        table.add_column(heading)
    for index, (combination, runs) in enumerate(zip(found.combinations, found.runs, strict=True)):
        pipeline = combination.pipeline
        mark, style = (_MARK, "bold") if index == found.best else ("", "")
        size = f"{pipeline.batch_size}{mark}"
        table.add_row(size, str(pipeline.workers), *_cells(runs), style=style)
        if found.against is not None:
            table.add_row("", f"/ {_OTHER}", *_ratio_cells(runs, found.against.runs))
    if found.against is not None:
        table.add_row(_OTHER, "", *_cells(found.against.runs))
    return table


def remarks(found: Throughput) -> Iterator[str]:
    """Explain the marks in the table, and the choice of the number of workers."""
    if len(found.combinations) > 1:
        yield f"{_MARK.strip()} most tokens per second: {found.combinations[found.best].label}"
    if found.against is not None:
        counted_by = found.against.runs[0].counted_by
        yield f"{_OTHER}: {found.against.target}; its tokens are {counted_by}"
    if found.choice is not None:
        yield found.choice.reason
        yield "To keep that, in the configuration file:"
        yield f"[pipeline]\nworkers = {found.choice.workers}"


def _cells(runs: Sequence[Tally]) -> Iterator[str]:
    for name, format_median in _COLUMNS.values():
        figure = over_rounds(name, runs)
        yield format_median(figure.median) + _bounds(name, figure, scale_of(figure.median)[0])


def _ratio_cells(runs: Sequence[Tally], other_runs: Sequence[Tally]) -> Iterator[str]:
    for name, _ in _COLUMNS.values():
        relative = ratio(name, runs, other_runs)
        yield f"{format_number(relative.median)} x{_bounds(name, relative)}" if relative else "-"


def _bounds(name: str, interval: Interval, scale: float = 1.0) -> str:
    """Write an interval's ends in the unit of its median, where they are finite and shown."""
    if name not in _WITH_BOUNDS or not isfinite(interval.high):
        return ""
    return f" ({format_number(interval.low / scale)}-{format_number(interval.high / scale)})"


_WITH_BOUNDS: Final = ("tokens_per_s", "tokens_per_cpu_s")
_COLUMNS: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = {
    "tokens/s": ("tokens_per_s", format_amount),
    "tokens/CPU s": ("tokens_per_cpu_s", format_amount),
    "batches/s": ("batches_per_s", format_amount),
    "padding": ("padding_fraction", format_percent),
    "worst": ("padding_fraction_worst_batch", format_percent),
    "B/token": ("bytes_read_per_token", format_amount),
    "PSS": ("peak_pss_bytes", format_megabytes),
    "1st batch": ("first_batch_s", format_seconds),
}
