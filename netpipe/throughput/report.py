"""What `netpipe throughput` prints: one table, one document."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from rich.table import Table

from netpipe.results.measurement import Device, Host, Interval
from netpipe.results.units import format_percent, format_seconds
from netpipe.throughput.candidates import Candidate
from netpipe.throughput.choice import WorkerChoice
from netpipe.throughput.figures import FIGURES, Tally, best, over_rounds, ratio
from netpipe.throughput.formatting import amount, megabytes, scale_of, short
from netpipe.throughput.subjects import Combination
from netpipe.verdict.report import new_table

SCHEMA: Final = "netpipe.throughput/1"

_OTHER: Final = "other"
_MARK: Final = " *"


@dataclass(frozen=True)
class Against:
    """Another loader that was measured in the same rounds.

    Attributes:
        target: Names it.
        runs: What its runs counted.
    """

    target: str
    runs: Sequence[Tally]


@dataclass(frozen=True)
class Throughput:
    """What was measured in one call.

    Attributes:
        data: What our pipeline read.
        seconds: How long each run measured the steady state.
        combinations: Choices of our pipeline's settings.
        runs: What the runs of each of them counted.
        against: Another loader; None for none.
        choice: How the number of workers was chosen; None where it was given.
    """

    data: Path
    seconds: float
    combinations: Sequence[Combination]
    runs: Sequence[Sequence[Tally]]
    against: Against | None = None
    choice: WorkerChoice | None = None

    @property
    def best(self) -> int:
        """The place of the combination with the most tokens per second."""
        return best(self.runs)


def throughput_document(
    found: Throughput, device: Device, host: Host, versions: Mapping[str, str]
) -> dict[str, Any]:
    """Return the `netpipe.throughput/1` document."""
    against = found.against
    return {
        "schema": SCHEMA,
        "device": {**asdict(device), "emulated": device.emulated},
        "host": asdict(host),
        "versions": dict(versions),
        "data": str(found.data),
        "seconds": found.seconds,
        "rounds": len(found.runs[0]),
        "combinations": [_combination(found, place) for place in range(len(found.combinations))],
        "against": against
        and {"target": against.target, **_figures(against.runs), **_raw(against.runs)},
        "choice": found.choice and _choice(found.choice),
    }


def _choice(choice: WorkerChoice) -> dict[str, Any]:
    return {**asdict(choice), "candidates": [_candidate(one) for one in choice.candidates]}


def _candidate(one: Candidate) -> dict[str, Any]:
    speed = _plain(over_rounds("tokens_per_s", one.runs)) if one.runs else None
    return {
        **asdict(one),
        "tokens_per_s": speed,
        "peak_pss_bytes": one.peak_pss_bytes if one.runs else None,
    }


def _combination(found: Throughput, place: int) -> dict[str, Any]:
    pipeline, runs = found.combinations[place].pipeline, found.runs[place]
    return {
        "batch_size": pipeline.batch_size,
        "workers": pipeline.workers,
        "sequence_length": pipeline.sequence_length,
        "best": place == found.best,
        **_figures(runs),
        "ratios": found.against
        and {name: _plain(ratio(name, runs, found.against.runs)) for name in FIGURES},
        **_raw(runs),
    }


def _figures(runs: Sequence[Tally]) -> dict[str, Any]:
    return {name: _plain(over_rounds(name, runs)) for name in FIGURES}


def _raw(runs: Sequence[Tally]) -> dict[str, Any]:
    return {"counted_by": runs[0].counted_by, "runs": [asdict(run) for run in runs]}


def _plain(interval: Interval | None) -> dict[str, float | None] | None:
    """Return an interval as JSON values, which know no infinity."""
    if interval is None:
        return None
    return {name: value if isfinite(value) else None for name, value in asdict(interval).items()}


def throughput_table(found: Throughput) -> Table:
    """Return one row for each combination, the best marked, and its ratios below it."""
    table = new_table("loader speed")
    table.padding = (0, 1, 0, 0)  # so that its ten columns fit
    for heading in ("batch", "workers", *_COLUMNS):
        table.add_column(heading)  # where all of them get too wide, they take a second line
    for place, combination in enumerate(found.combinations):
        runs, is_best = found.runs[place], place == found.best
        pipeline = combination.pipeline
        size = f"{pipeline.batch_size}{_MARK if is_best else ''}"
        style = "bold" if is_best else ""
        table.add_row(size, str(pipeline.workers), *_cells(runs), style=style)
        if found.against is not None:
            table.add_row("", f"/ {_OTHER}", *_ratio_cells(runs, found.against.runs))
    if found.against is not None:
        table.add_row(_OTHER, "", *_cells(found.against.runs))
    return table


def remarks(found: Throughput) -> Iterator[str]:
    """Say what the table's marks stand for, and why so many workers."""
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
    for name, shown in _COLUMNS.values():
        found = over_rounds(name, runs)
        ends = _ends(found, scale_of(found.median)[0]) if name in _WITH_ENDS else ""
        yield shown(found.median) + ends


def _ratio_cells(runs: Sequence[Tally], theirs: Sequence[Tally]) -> Iterator[str]:
    for name, _ in _COLUMNS.values():
        found = ratio(name, runs, theirs)
        if found is None:
            yield "-"
        else:
            yield f"{short(found.median)} x" + (_ends(found) if name in _WITH_ENDS else "")


def _ends(interval: Interval, scale: float = 1.0) -> str:
    """Write where an interval ends, in the unit of the figure before it; nothing for no ends."""
    if not isfinite(interval.high):
        return ""
    return f" ({short(interval.low / scale)}-{short(interval.high / scale)})"


_WITH_ENDS: Final = ("tokens_per_s", "tokens_per_cpu_s")
_COLUMNS: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = MappingProxyType(
    {
        "tokens/s": ("tokens_per_s", amount),
        "tokens/CPU s": ("tokens_per_cpu_s", amount),
        "batches/s": ("batches_per_s", amount),
        "padding": ("padding_fraction", format_percent),
        "worst": ("padding_fraction_worst_batch", format_percent),
        "B/token": ("bytes_read_per_token", amount),
        "PSS": ("peak_pss_bytes", megabytes),
        "1st batch": ("first_batch_s", format_seconds),
    }
)
