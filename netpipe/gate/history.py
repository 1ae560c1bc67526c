"""Find the baselines of each device that are in use, and those that may be removed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from netpipe.device.host import host_class
from netpipe.errors import InputError
from netpipe.gate.baseline import Baseline, baseline_paths, find_holder, find_holders, load
from netpipe.gate.comparison import is_comparable
from netpipe.gate.metrics import METRICS
from netpipe.gate.numbered_files import read_number
from netpipe.gate.work_baselines import WORK_FOLDER
from netpipe.results.measurement import Host


@dataclass(frozen=True)
class Entry:
    """A file in a folder of baselines.

    Attributes:
        is_compared: Whether runs on the device are compared with it: it is the latest file, or the
            newest file that holds a benchmark on some class of host.
    """

    path: Path
    is_compared: bool
    baseline: Baseline | None
    error: str = ""


def device_folders(folder: Path) -> list[Path]:
    """Return the folders of the device keys in `<baselines>`, which must be a folder."""
    if not folder.is_dir():
        way_out = "Record a baseline, or say where it is"
        raise InputError(folder, "--baselines", "be a folder", "none", way_out)
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name != WORK_FOLDER)


def read_entries(device: Path) -> list[Entry]:
    """Return an entry for every baseline in `<baselines>/<device key>`, ordered by number."""
    paths = baseline_paths(device)
    found: dict[Path, Baseline] = {}
    errors: dict[Path, str] = {}
    for path in paths:
        try:
            found[path] = load(path)
        except InputError as error:
            errors[path] = str(error)
    compared = {holder.path for _, holder in _list_holders(list(found.values()))}
    compared |= {path for path in paths if read_number(path) == read_number(paths[-1])}
    return [Entry(path, path in compared, found.get(path), errors.get(path, "")) for path in paths]


def list_compared(device: Path, host: Host) -> list[str]:
    """Return the names of a device's baseline files with which runs on a host are compared."""
    readable = [entry.baseline for entry in read_entries(device) if entry.baseline]
    found = (find_holder(benchmark, readable, host) for benchmark in find_holders(readable))
    return sorted({holder.path.name for holder in found if holder})


def _list_holders(baselines: Sequence[Baseline]) -> Iterator[tuple[str, Baseline]]:
    """Yield each benchmark and the baseline it is compared with, for each class of host."""
    sessions = (session for baseline in baselines for session in baseline.all_sessions)
    hosts = {host_class(session.host): session.host for session in sessions}
    for benchmark, host in product(find_holders(baselines), hosts.values()):
        if holder := find_holder(benchmark, baselines, host):
            yield benchmark, holder


def find_superfluous(baselines: Sequence[Baseline], keep: int) -> tuple[Path, ...]:
    """Return the baselines of one device that may be removed.

    The latest `keep` baselines, at least 1, are kept. For each benchmark and class of host, two
    more are kept: the newest that holds it, and the oldest comparable one, to measure drift. If a
    benchmark was removed but a kept baseline holds it, the one that records this is kept too.
    """
    kept = {baseline.path for baseline in baselines[-keep:]}
    for benchmark, holder in _list_holders(baselines):
        kept.add(holder.path)
        now = holder.sessions[benchmark][-1]
        for metric in METRICS.values():
            comparable = (
                baseline.path
                for baseline in baselines
                if is_comparable(metric, now, baseline.sessions.get(benchmark, ()))
            )
            kept.add(next(comparable, holder.path))
    newest = {benchmark: baseline for baseline in baselines for benchmark in baseline.sessions}
    # A baseline that is kept for one removal may hold a benchmark that a later one removed.
    for benchmark, last in sorted(newest.items(), key=lambda item: baselines.index(item[1])):
        held = (baseline.path in kept for baseline in baselines if baseline.sessions.get(benchmark))
        if not last.sessions[benchmark] and any(held):
            kept.add(last.path)
    return tuple(baseline.path for baseline in baselines if baseline.path not in kept)
