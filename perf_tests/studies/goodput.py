"""`python -m perf_tests.studies.goodput`: the goodput of a training that waits for its data.

A plain loop records what MaxText's records, with ml-goodput-measurement, and netpipe.watch watches
it. `tox -e goodput` has the library, whose entries stay in memory instead of Google's cloud.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import click
import numpy as np

import netpipe
from netpipe.device.host import this_host
from netpipe.git import git
from netpipe.measuring.training.emulated_step import EmulatedStep
from netpipe.results.fields import Fraction, Interval
from netpipe.watching.logs import Log
from netpipe.watching.processes import merge
from perf_tests.studies.faults.parts.batches import Batch
from perf_tests.studies.faults.parts.delays import Steady
from perf_tests.studies.faults.parts.loaders import Prefetched, in_main_thread
from perf_tests.studies.options import exit_on_signals
from perf_tests.studies.records import append_record, read_records

LIBRARY: Final = "ml-goodput-measurement"
KEPT: Final = Path(__file__).with_name("goodput.jsonl")


class Loader(NamedTuple):
    """The loader of a run.

    Attributes:
        ratio: Time to load a batch, in steps.
    """

    ratio: float
    is_prefetched: bool

    def batches(self, step_s: float) -> Iterator[Batch]:
        """Return the batches for a step of `step_s` seconds."""
        loaded = in_main_thread(Steady(self.ratio * step_s))
        return Prefetched(loaded, depth=4) if self.is_prefetched else loaded


#: The loop of `hidden` waits for its batches while the device works on the step before.
LOADERS: Final = {
    "healthy": Loader(0.3, is_prefetched=True),
    "hidden": Loader(0.8, is_prefetched=False),
    "starved": Loader(3.0, is_prefetched=True),
}


@dataclass(frozen=True)
class Trial:
    """A run, and its figures by the library, by netpipe and by the emulated device.

    Attributes:
        goodput_fraction: The library's goodput.
        sync_fraction: Its badput for loading (DATA_LOADING_SYNC).
        async_fraction: Loading that it lists, but counts as goodput (DATA_LOADING_ASYNC).
        waiting_fraction: Fraction of the time in which the loop waited, by netpipe.watch.
        exposed_fraction: Fraction in which the device was idle meanwhile, by netpipe.watch.
        verdict: Of netpipe.watch for the whole run.
        idle_fraction: Fraction in which the device was idle between its first and its last step.
    """

    loader: str
    steps: int
    step_s: float
    began: str
    duration_s: float
    commit: str
    host: str
    library: str
    goodput_fraction: Fraction
    sync_fraction: Fraction
    async_fraction: Fraction
    waiting_fraction: Fraction
    exposed_fraction: Interval
    verdict: str
    idle_fraction: Fraction


class Entries:
    """The entries of a recorder, for a calculator of the library."""

    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []

    def write_cloud_logging_entry(self, entry: dict[str, Any]) -> None:
        """Keep an entry."""
        self._entries.append(entry)

    def read_cloud_logging_entries(self) -> tuple[list[dict[str, Any]], None]:
        """Return all entries; the calculator reads them once."""
        return self._entries, None


def calculate(entries: Entries) -> tuple[float, float, float]:
    """Return the library's goodput, its badput for loading, and the loading it leaves out."""
    from ml_goodput_measurement import goodput

    with TemporaryDirectory(prefix="goodput-") as folder:
        calculator = goodput.GoodputCalculator("run", "log", entries, cache_dir=folder)
        percent, badput, _ = calculator.get_job_goodput(include_badput_breakdown=True)
    kinds = goodput.BadputType.DATA_LOADING_SYNC, goodput.BadputType.DATA_LOADING_ASYNC
    sync, left_out = (badput[kind] / 100 for kind in kinds)
    return percent / 100, sync, left_out


def train(name: str, steps: int, step_s: float, log: Path, entries: Entries) -> float:
    """Train in a loop that is recorded and watched; return the idle fraction of the device."""
    from ml_goodput_measurement import goodput

    recorder = goodput.GoodputRecorder("run", "log", logging_enabled=True, cloud_logger=entries)
    recorder.record_job_start_time()
    step = EmulatedStep(step_s)
    state, late, began_s = step.initial_state(), None, 0.0
    watched = netpipe.watch(LOADERS[name].batches(step_s), log=log)
    for number in range(steps):
        recorder.record_data_loading_start_time()
        batch = next(watched)
        recorder.record_data_loading_end_time()
        recorder.record_step_start_time(number)
        state, aux = step(state, batch)
        watched.on_step_end(aux)
        if late is not None:
            np.asarray(late["loss"])
        late = aux
        began_s = began_s or step.device_step.began_s
    np.asarray(aux["loss"])
    recorder.record_job_end_time()
    watched.stop()
    watched.close()
    return 1 - steps * step_s / (step.device_step.done_s - began_s)


def run(name: str, steps: int, step_s: float) -> Trial:
    """Train once with a loader."""
    commit = git(Path(), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*")
    began, started_s, host, entries = datetime.now(UTC), time.monotonic(), this_host(), Entries()
    with TemporaryDirectory(prefix="goodput-") as folder:
        log = Path(folder, "run.jsonl")
        idle = train(name, steps, step_s, log, entries)
        window = merge([*Log(log).read()])
    exposed = window.figures.exposed_fraction
    assert exposed is not None, "the loop calls on_step_end"
    goodput, sync, left_out = calculate(entries)
    return Trial(
        loader=name,
        steps=steps,
        step_s=step_s,
        began=began.isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - started_s, 1),
        commit=commit,
        host=f"{host.cpu}, {host.cores} cores",
        library=f"{LIBRARY} {version(LIBRARY)}",
        goodput_fraction=goodput,
        sync_fraction=sync,
        async_fraction=left_out,
        waiting_fraction=window.figures.waiting_fraction,
        exposed_fraction=exposed,
        verdict=window.verdict.kind,
        idle_fraction=max(0.0, idle),
    )


def format_table(trials: Sequence[Trial]) -> Iterator[str]:
    """Format as Markdown the median of each figure, with its smallest and largest value."""
    yield f"| loader | {' | '.join(_COLUMNS)} | verdict |"
    yield f"|---|{'--:|' * len(_COLUMNS)}---|"
    for name in LOADERS:
        if own := [trial for trial in trials if trial.loader == name]:
            cells = (_spread([value(each) for each in own]) for value in _COLUMNS.values())
            verdicts = ", ".join(sorted({each.verdict for each in own}))
            yield f"| {name} | {' | '.join(cells)} | {verdicts} |"


_COLUMNS: Final[dict[str, Callable[[Trial], float]]] = {
    "goodput": lambda trial: trial.goodput_fraction,
    "badput of loading": lambda trial: trial.sync_fraction,
    "async loading": lambda trial: trial.async_fraction,
    "waits": lambda trial: trial.waiting_fraction,
    "exposed": lambda trial: trial.exposed_fraction.median,
    "device idle": lambda trial: trial.idle_fraction,
}


def _spread(fractions: Sequence[float]) -> str:
    low, middle, high = min(fractions), median(fractions), max(fractions)
    return f"{middle:.1%} ({100 * low:.1f} to {100 * high:.1f})"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(min=0))
@click.option("--steps", default=300, show_default=True, type=click.IntRange(min=2))
@click.option("--step-ms", default=100.0, show_default=True, type=click.FloatRange(min=0.1))
@click.option(
    "--trials", "path", type=click.Path(dir_okay=False, path_type=Path),
    default=KEPT, show_default=True, help="The file to which each trial is added.",
)  # fmt: skip
def main(rounds: int, steps: int, step_ms: float, path: Path) -> None:
    """Train with each loader in turn, and print the table of all trials in the file."""
    exit_on_signals()
    for _ in range(rounds):
        for name in LOADERS:
            append_record(path, run(name, steps, step_ms / 1000))
    for line in format_table(read_records(path, Trial)):
        click.echo(line)


if __name__ == "__main__":
    main()
