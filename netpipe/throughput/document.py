"""The runs of one `netpipe throughput` command, and their document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from netpipe.results.fields import Count, Must, PositiveAmount, PositiveCount, Text, converter
from netpipe.results.measurement import Device, Host
from netpipe.throughput.figures import FIGURES, Figure, Tally, over_rounds, ratio, speed_figure
from netpipe.throughput.sessions import Subject
from netpipe.throughput.worker_choice import Candidate, WorkerChoice


@dataclass(frozen=True)
class Against:
    """Another loader, and its runs beside each combination."""

    target: str
    runs: Sequence[Sequence[Tally]]

    @property
    def all_runs(self) -> list[Tally]:
        """The other loader's runs beside all combinations."""
        return [run for runs in self.runs for run in runs]


@dataclass(frozen=True)
class Throughput:
    """The result of one command: each combination's runs, and the choice of workers, if any."""

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


class Figures(TypedDict):
    """The figures of a loader's runs."""

    tokens_per_s: Figure  #: Real tokens per second of wall time; padding is not counted.
    tokens_per_cpu_s: Figure  #: Real tokens per CPU second of all processes.
    #: Examples, the rows of a batch's first array, per second of wall time.
    examples_per_s: NotRequired[Figure]
    examples_per_cpu_s: NotRequired[Figure]  #: Examples per CPU second of all processes.
    batches_per_s: Figure
    padding_fraction: Figure  #: Share of padding in all batches.
    padding_fraction_worst_batch: Figure  #: Share of padding in the batch with the most padding.
    bytes_read_per_token: Figure  #: Bytes read from files per real token.
    peak_pss_bytes: Figure  #: Peak memory of all processes, shared memory counted once.
    peak_rss_bytes: Figure  #: The same, shared memory counted in each process.
    #: Seconds from building the pipeline to its first batch, after the imports.
    first_batch_s: Figure
    counted_by: Text  #: The rule by which tokens are counted.
    #: The counts of each run, in the order of the rounds.
    runs: Annotated[list[Tally], Must(minItems=1)]


Ratios = TypedDict(  # type: ignore[misc]
    "Ratios",
    {
        name: NotRequired[Figure | None] if name.startswith("examples") else Figure | None
        for name in FIGURES
    },
)


class MeasuredCombination(Figures):
    """A combination of settings that was measured."""

    #: The target of --loader; null or absent: this repository's pipeline.
    loader: NotRequired[str | None]
    batch_size: PositiveCount | None  #: Sequences per batch; null with --loader.
    workers: Count | None  #: Worker processes; null: the loader's own number.
    sequence_length: PositiveCount | None  #: Tokens per sequence; null with --loader.
    best: bool  #: Whether this combination is the fastest.
    #: The ratio of each figure to the other loader's, or null if that is 0; null without another
    #: loader.
    ratios: Ratios | None


class OtherLoader(Figures):
    """Another loader, measured at the same time, in turns with each combination."""

    target: str


class ThroughputDocument(TypedDict):
    """The speed of loaders without a step: the document of `netpipe throughput --json`."""

    schema: Literal["netpipe.throughput/1"]
    device: Annotated[
        Device, Must(required=["emulated"], properties={"emulated": {"const": False}})
    ]
    host: Annotated[Host, Must(required=["machine"])]
    versions: Mapping[str, str]  #: Versions of every package that matters, by name.
    data: str | None  #: The folder that our pipeline read; null with --loader.
    seconds: PositiveAmount  #: Requested duration of steady iteration in each run.
    #: Runs of each combination, each in a fresh process, in turns with the other combinations.
    rounds: PositiveCount
    combinations: Annotated[
        list[MeasuredCombination],
        Must(minItems=1, contains={"properties": {"best": {"const": True}}}),
    ]
    against: OtherLoader | None
    choice: WorkerChoice | None  #: Null if the number of workers was given.


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
                    "loader": str(combination.target) if combination.data is None else None,
                    "batch_size": combination.batch_size,
                    "workers": combination.workers,
                    "sequence_length": combination.sequence_length,
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
