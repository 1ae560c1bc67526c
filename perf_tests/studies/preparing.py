"""`python -m perf_tests.studies.preparing FOLDER`: speed and memory of `netpipe prepare`.

The measurements come from `netpipe generate`; their files are kept in FOLDER.
Each trial prepares some of the files in a new process, and is kept as soon as it is done.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click
import numpy as np
import psutil
import pyarrow.parquet as pq
from rich.console import Console

from netpipe.git import git
from netpipe.workload.preparation.profiles import PROFILES
from netpipe.workload.preparation.synthetic import make_table
from perf_tests.studies.children import end_group
from perf_tests.studies.options import exit_on_signals
from perf_tests.studies.ray_nodes import ray_nodes
from perf_tests.studies.records import append_record, read_records

ARRANGEMENTS: Mapping[str, Sequence[str]] = {
    "one process": ("netpipe", "prepare", "--workers", "1"),
    "all cores": ("netpipe", "prepare"),
    "two Ray nodes": ("netpipe", "prepare", "--runner", "ray"),
    "Ray Data, two nodes": ("perf_tests.studies.ray_data",),
}
"""The modules and options that are compared."""

_ON_RAY = ("two Ray nodes", "Ray Data, two nodes")
_STORE_BYTES = 500 * 10**6

TRIALS = Path(__file__).with_suffix(".jsonl")
_PROBES_PER_FILE = 1000
_POLL_S = 0.1


@dataclass(frozen=True)
class Trial:
    """A preparation.

    Attributes:
        arrangement: A key of `ARRANGEMENTS`.
        cpu_s: CPU time of all its processes.
        peak_rss_bytes: The kernel's peak of each process, added up for
            the processes that ran at once.
        peak_pss_bytes: The largest observed sum over all processes, shared pages counted
            once. The peak between two readings can be higher.
        load: The host's mean number of runnable processes during the last minute, its own
            included.
    """

    arrangement: str
    rows: int
    parquet_bytes: int
    wall_s: float
    cpu_s: float
    peak_rss_bytes: int
    peak_pss_bytes: int
    prepared_bytes: int
    cpu: str
    cores: int
    load: float
    commit: str


def write_files(folder: Path, rows: int) -> list[Path]:
    """Write files of a thousand probes each until there are at least `rows` rows.

    Existing files are kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    done = 0
    while done < rows:
        file = folder / f"{len(files):05d}.parquet"
        if not file.exists():
            first = len(files) * _PROBES_PER_FILE
            probes = np.arange(first, first + _PROBES_PER_FILE)
            table = make_table(np.random.default_rng([0, first]), probes, PROFILES["embedded"])
            pq.write_table(table, file.with_suffix(".part"), store_schema=False)
            file.with_suffix(".part").rename(file)
        done += pq.read_metadata(file).num_rows
        files.append(file)
    return files


@contextmanager
def _words(arrangement: str) -> Iterator[Sequence[str]]:
    """Yield the arguments of an arrangement, with a running cluster if it needs one."""
    if arrangement not in _ON_RAY:
        yield ARRANGEMENTS[arrangement]
        return
    with ray_nodes(2, _STORE_BYTES) as cluster:
        yield (*ARRANGEMENTS[arrangement], "--address", cluster.address)


def run_trial(
    arrangement: str, words: Sequence[str], files: Sequence[Path], scratch: Path
) -> Trial:
    """Prepare files once, and remove the output."""
    source, out = scratch / "source", scratch / "out"
    source.mkdir(parents=True)
    for file in files:
        os.link(file, source / file.name)
    command = [sys.executable, "-m", *words, str(source), "--out", str(out)]
    began_s, idle_cpu_s, nodes_cpu_s = time.monotonic(), _nodes_cpu_s(), dict[int, float]()
    child = subprocess.Popen(
        command,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        peak_rss_bytes = peak_pss_bytes = 0
        while True:
            rss_bytes, pss_bytes = _look_at_memory()
            peak_rss_bytes = max(peak_rss_bytes, rss_bytes)
            peak_pss_bytes = max(peak_pss_bytes, pss_bytes)
            if idle_cpu_s:  # Ray does not wait for its processes, so the kernel's sums lack them.
                nodes_cpu_s |= _nodes_cpu_s(child)
            ended, status, usage = os.wait4(child.pid, os.WNOHANG)
            if ended:
                break
            time.sleep(_POLL_S)
        wall_s = time.monotonic() - began_s
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise click.ClickException(f"{' '.join(command)} ended with {child.returncode}")
        prepared = sum(path.stat().st_size for path in out.iterdir())
    finally:
        end_group(child)
        shutil.rmtree(scratch)
    added_cpu_s = sum(nodes_cpu_s.values()) - sum(idle_cpu_s.values())
    return Trial(
        arrangement=arrangement,
        rows=sum(pq.read_metadata(file).num_rows for file in files),
        parquet_bytes=sum(file.stat().st_size for file in files),
        wall_s=wall_s,
        cpu_s=usage.ru_utime + usage.ru_stime + added_cpu_s,
        peak_rss_bytes=peak_rss_bytes,
        peak_pss_bytes=peak_pss_bytes,
        prepared_bytes=prepared,
        cpu=_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        load=os.getloadavg()[0],
        commit=git(Path(__file__).parent, "rev-parse", "--short", "HEAD"),
    )


def _look_at_memory() -> tuple[int, int]:
    """Return the peak and the current memory of all descendants, in bytes."""
    rss_bytes = pss_bytes = 0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error, OSError):
            pss_bytes += process.memory_full_info().pss
            status = Path(f"/proc/{process.pid}/status").read_text()
            if found := re.search(r"VmHWM:\s+(\d+) kB", status):
                rss_bytes += 1024 * int(found[1])
    return rss_bytes, pss_bytes


def _nodes_cpu_s(child: subprocess.Popen[str] | None = None) -> dict[int, float]:
    """Return the CPU time of each descendant, without the child's own processes."""
    cpu_s = dict[int, float]()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            cpu_s[process.pid] = sum(process.cpu_times()[:2])
    if child and child.pid in cpu_s:
        for each in (child.pid, *(p.pid for p in psutil.Process(child.pid).children(True))):
            cpu_s.pop(each, None)
    return cpu_s


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def format_table(trials: Sequence[Trial]) -> Iterator[str]:
    """Yield the lines of a Markdown table with the medians of each kind of trial."""
    kinds: dict[tuple[int, int], list[Trial]] = defaultdict(list)
    for trial in trials:
        kinds[list(ARRANGEMENTS).index(trial.arrangement), trial.rows].append(trial)
    yield "| | million rows | thousand rows/s | the same per CPU second | peak RSS | peak PSS |"
    yield "|---|--:|--:|--:|--:|--:|"
    for (_, rows), found in sorted(kinds.items()):
        wall_s, cpu_s = median(t.wall_s for t in found), median(t.cpu_s for t in found)
        rss, pss = median(t.peak_rss_bytes for t in found), median(t.peak_pss_bytes for t in found)
        yield (
            f"| {found[0].arrangement} | {rows / 1e6:.1f} | {rows / wall_s / 1e3:,.0f} "
            f"| {rows / cpu_s / 1e3:,.0f} | {rss / 1e6:,.0f} MB | {pss / 1e6:,.0f} MB |"
        )


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--rows", "sizes", multiple=True, type=int, default=(10**6, 10**7, 10**8),
              show_default=True, help="Minimum number of rows.")  # fmt: skip
@click.option("--only", "arrangements", multiple=True, type=click.Choice(list(ARRANGEMENTS)),
              default=list(ARRANGEMENTS), show_default=True, help="Arrangement.")  # fmt: skip
@click.option(
    "--rounds", default=1, show_default=True, help="Trials of each kind; 0 for the table."
)
@click.option("--generate-only", is_flag=True, help="Write the measurements and exit.")
@click.option(
    "--trials", type=click.Path(path_type=Path), default=TRIALS, help="The file of trials."
)
def main(
    folder: Path, sizes: tuple[int, ...], arrangements: tuple[str, ...], rounds: int,
    generate_only: bool, trials: Path,
) -> None:  # fmt: skip
    """Prepare measurements of several sizes, in turns, and print the table of all trials."""
    exit_on_signals()
    notes = Console(stderr=True)
    if generate_only:
        write_files(folder / "parquet", max(sizes))
        return
    for _ in range(rounds):
        for rows in sizes:
            files = write_files(folder / "parquet", rows)
            for arrangement in arrangements:
                with _words(arrangement) as words:
                    trial = run_trial(arrangement, words, files, folder / "trial")
                append_record(trials, trial)
                notes.print(trial)
    for line in format_table(read_records(trials, Trial)):
        click.echo(line)


if __name__ == "__main__":
    main()
