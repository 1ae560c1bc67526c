"""The table and the document that `netpipe throughput` prints."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

from rich.table import Table

from netpipe.results.fields import (
    Count,
    Interval,
    Must,
    PositiveAmount,
    PositiveCount,
    Text,
    converter,
)
from netpipe.results.measurement import Device, Host
from netpipe.results.units import (
    format_amount,
    format_megabytes,
    format_number,
    format_percent,
    format_seconds,
    scale_of,
)
from netpipe.throughput.figures import (
    FIGURES,
    Figure,
    Tally,
    over_rounds,
    ratio,
    speed_figure,
)
from netpipe.throughput.sessions import Subject, Target
from netpipe.throughput.worker_choice import Candidate, WorkerChoice
from netpipe.verdict.report import new_table

_OTHER: Final = "other"
_MARK: Final = " *"


@dataclass(frozen=True)
class Against:
    """Another loader, and what its runs beside each combination counted."""

    target: str
    runs: Sequence[Sequence[Tally]]

    @property
    def all_runs(self) -> list[Tally]:
        """Its runs beside all combinations."""
        return [run for runs in self.runs for run in runs]


@dataclass(frozen=True)
class Throughput:
    """What was measured in one call: the runs of each combination, of some seconds.

    `data` is None where the loader is not this repository's. `choice` is None where the number of
    workers was given.
    """

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


class _Medians(TypedDict):
    tokens_per_s: Figure  #: Real tokens in a second of wall time; padding is not counted.
    tokens_per_cpu_s: Figure  #: Real tokens for a CPU second of all processes.
    #: Examples, the rows of a batch's first array, in a second of wall time.
    examples_per_s: NotRequired[Figure]
    examples_per_cpu_s: NotRequired[Figure]  #: Examples for a CPU second of all processes.
    batches_per_s: Figure
    padding_fraction: Figure  #: Share of padding in all batches.
    padding_fraction_worst_batch: Figure  #: Share of padding in the batch that has most of it.
    bytes_read_per_token: Figure  #: Bytes read from files for a real token.
    peak_pss_bytes: Figure  #: The most memory of all processes, what they share counted once.
    peak_rss_bytes: Figure  #: The same, what they share counted in each.
    #: Seconds from building the pipeline to its first batch, after the imports.
    first_batch_s: Figure


class Figures(_Medians):
    """What the runs of a loader counted."""

    counted_by: Text  #: What a token is.
    #: What each run counted, in the order of the rounds.
    runs: Annotated[list[Tally], Must(minItems=1)]


Ratios = TypedDict(  # type: ignore[misc]
    "Ratios",
    {
        name: NotRequired[Figure | None] if name.startswith("examples") else Figure | None
        for name in FIGURES
    },
)


class MeasuredCombination(Figures):
    """A combination of settings."""

    #: The target of --loader; null or absent: this repository's pipeline.
    loader: NotRequired[str | None]
    batch_size: PositiveCount | None  #: Sequences in a batch; null with --loader.
    workers: Count | None  #: Worker processes; null: the loader's own number of them.
    sequence_length: PositiveCount | None  #: Tokens in a sequence; null with --loader.
    best: bool  #: Whether it has the most tokens per second.
    #: Every figure over that of the other loader beside it, or null where that is 0; null without
    #: one.
    ratios: Ratios | None


class OtherLoader(Figures):
    """Another loader, measured at the same time, in turns with each combination."""

    target: str


class ThroughputDocument(TypedDict):
    """How fast loaders go when nothing waits for them: what `netpipe throughput --json` prints."""

    schema: Literal["netpipe.throughput/1"]
    device: Annotated[
        Device, Must(required=["emulated"], properties={"emulated": {"const": False}})
    ]
    host: Annotated[Host, Must(required=["machine"])]
    versions: Mapping[str, str]  #: Of every package that matters, by name.
    data: str | None  #: The folder that our pipeline read; null with --loader.
    seconds: PositiveAmount  #: Steady iteration that each run was asked for.
    #: Runs of each combination, each in a fresh process, in turns with the others.
    rounds: PositiveCount
    combinations: Annotated[
        list[MeasuredCombination],
        Must(minItems=1, contains={"properties": {"best": {"const": True}}}),
    ]
    against: OtherLoader | None
    choice: WorkerChoice | None  #: Null where the number of workers was given.


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
                    **_settings(combination),
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


def _settings(subject: Subject) -> dict[str, Any]:
    if isinstance(subject, Target):
        ours = {"batch_size": None, "sequence_length": None}
        return {"loader": subject.target, "workers": subject.workers, **ours}
    pipeline = subject.pipeline
    names = ("batch_size", "workers", "sequence_length")
    return {"loader": None, **{name: getattr(pipeline, name) for name in names}}


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
    has_tokens = any(speed_figure(runs) == "tokens_per_s" for runs in found.runs)
    columns = (_TOKENS if has_tokens else _EXAMPLES) | _COLUMNS
    table = new_table("loader speed", "batch", "workers", *columns)
    # Otherwise its ten columns do not fit.
    table.padding = (0, 1, 0, 0)
    for index, (combination, runs) in enumerate(zip(found.combinations, found.runs, strict=True)):
        mark, style = (_MARK, "bold") if index == found.best else ("", "")
        settings = _settings(combination)
        size = settings["batch_size"] or round(runs[0].examples / runs[0].batches)
        workers = "own" if settings["workers"] is None else str(settings["workers"])
        table.add_row(f"{size}{mark}", workers, *_cells(runs, columns), style=style)
        if found.against is not None:
            other_runs = found.against.runs[index]
            table.add_row("", f"/ {_OTHER}", *_ratio_cells(runs, other_runs, columns))
    if found.against is not None:
        table.add_row(_OTHER, "", *_cells(found.against.all_runs, columns))
    return table


def remarks(found: Throughput) -> Iterator[str]:
    """Explain the marks in the table, and the choice of the number of workers."""
    if len(found.combinations) > 1:
        counted = speed_figure(found.runs[0]).partition("_")[0]
        fastest = found.combinations[found.best].label
        yield f"{_MARK.strip()} most {counted} per second: {fastest}"
    if found.against is not None:
        counted_by = found.against.all_runs[0].counted_by
        yield f"{_OTHER}: {found.against.target}; its tokens are {counted_by}"
    if found.choice is not None:
        workers, buffer = found.choice.workers, found.choice.buffer
        yield found.choice.reason
        if found.data is None:
            yield "To keep that, where the loader is made (torch calls the second prefetch_factor):"
            yield f"num_workers={workers}, per_worker_buffer_size={buffer}"
        else:
            yield "To keep that, in the configuration file:"
            yield f"[pipeline]\nworkers = {workers}\nworker_buffer_batches = {buffer}"


def _cells(runs: Sequence[Tally], columns: "_Columns") -> Iterator[str]:
    for name, format_median in columns.values():
        figure = over_rounds(name, runs)
        yield format_median(figure.median) + _bounds(name, figure, scale_of(figure.median)[0])


def _ratio_cells(
    runs: Sequence[Tally], other_runs: Sequence[Tally], columns: "_Columns"
) -> Iterator[str]:
    for name, _ in columns.values():
        relative = ratio(name, runs, other_runs)
        yield f"{format_number(relative.median)} x{_bounds(name, relative)}" if relative else "-"


def _bounds(name: str, interval: Interval, scale: float = 1.0) -> str:
    """Write an interval's ends in the unit of its median, where they are finite and shown."""
    if name not in _WITH_BOUNDS or not isfinite(interval.high):
        return ""
    return f" ({format_number(interval.low / scale)}-{format_number(interval.high / scale)})"


_Columns = dict[str, tuple[str, Callable[[float], str]]]
_TOKENS: Final[_Columns] = {
    "tokens/s": ("tokens_per_s", format_amount),
    "tokens/CPU s": ("tokens_per_cpu_s", format_amount),
    "batches/s": ("batches_per_s", format_amount),
    "padding": ("padding_fraction", format_percent),
    "worst": ("padding_fraction_worst_batch", format_percent),
    "B/token": ("bytes_read_per_token", format_amount),
}
_EXAMPLES: Final[_Columns] = {
    "examples/s": ("examples_per_s", format_amount),
    "examples/CPU s": ("examples_per_cpu_s", format_amount),
    "batches/s": ("batches_per_s", format_amount),
}
_WITH_BOUNDS: Final = ("tokens_per_s", "tokens_per_cpu_s", "examples_per_s", "examples_per_cpu_s")
_COLUMNS: Final[_Columns] = {
    "PSS": ("peak_pss_bytes", format_megabytes),
    "1st batch": ("first_batch_s", format_seconds),
}
