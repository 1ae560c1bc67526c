"""The baselines of all devices, one beside the other: listed, shown, compared and thinned out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from statistics import median
from typing import Final

from netpipe.device.host import host_class, host_difference
from netpipe.errors import InputError
from netpipe.gate.baseline import Baseline, baseline_paths, find_holder, find_holders, load
from netpipe.gate.comparison import why_not_comparable
from netpipe.gate.metrics import GATED
from netpipe.results.measurement import Interval, Measurement

FIGURES: Final = (
    "load_s_per_batch",
    "load_cpu_ratio",
    "step_s",
    "train_s_per_step",
    "accelerator_utilisation",
    "headroom",
    "stall_fraction",
)
"""What is told of a baseline: intervals of a Measurement, by name."""


@dataclass(frozen=True)
class Entry:
    """A file in a folder of baselines.

    Attributes:
        path: The file.
        is_compared: Whether runs on its device are compared with it: the latest, and each that
            holds a benchmark that no later one has of that class of host.
        baseline: What it holds; None where it cannot be read.
        error: Why not; "" where it can.
    """

    path: Path
    is_compared: bool
    baseline: Baseline | None
    error: str = ""


@dataclass(frozen=True)
class Change:
    """A figure of two baselines, each the median over its sessions."""

    before: float
    after: float
    ratio: float | None


@dataclass(frozen=True)
class Changes:
    """Two baselines side by side.

    Attributes:
        differences: What is not alike, so that figures may differ for it.
        figures: Those of `FIGURES`, by name.
    """

    differences: tuple[str, ...]
    figures: Mapping[str, Change]


@dataclass(frozen=True)
class Spread:
    """A figure over the sessions of a baseline, each of which has one median."""

    low: float
    median: float
    high: float


def devices(folder: Path) -> list[Path]:
    """Return the folders of `<baselines>`, one for each device key."""
    return sorted(one for one in folder.iterdir() if one.is_dir())


def entries(folder: Path) -> Iterator[Entry]:
    """Read every baseline below `<baselines>`, by device key and number."""
    for device in devices(folder):
        yield from read_entries(device)


def read_entries(device: Path) -> Iterator[Entry]:
    """Read every baseline in `<baselines>/<device key>`, by number."""
    paths = baseline_paths(device)
    found: list[Entry] = []
    later: set[tuple[str, str]] = set()
    gone: set[str] = set()
    for path in reversed(paths):
        is_latest = path.name[:4] == paths[-1].name[:4]
        try:
            held = load(path)
        except InputError as error:
            found.append(Entry(path, is_latest, None, str(error)))
            continue
        benchmarks = {
            (name, host_class(some[0].host))
            for name, some in held.sessions.items()
            if some and name not in gone
        }
        found.append(Entry(path, is_latest or not benchmarks <= later, held))
        later |= benchmarks
        gone.update(name for name, some in held.sessions.items() if not some)
    yield from reversed(found)


def sessions(baseline: Baseline) -> tuple[Measurement, ...]:
    """Return every session of a baseline once, whichever benchmarks share it."""
    every: list[Measurement] = []
    for measured in baseline.sessions.values():
        every += [one for one in measured if one not in every]
    return tuple(every)


def spread(measured: Sequence[Measurement], figure: str) -> Spread:
    """Return a figure of `FIGURES` over sessions."""
    values: list[Interval] = [getattr(one, figure) for one in measured]
    medians = sorted(one.median for one in values)
    return Spread(medians[0], median(medians), medians[-1])


def changes(before: Baseline, after: Baseline) -> Changes:
    """Compare two baselines."""
    old, new = sessions(before), sessions(after)
    figures = {name: _change(spread(old, name), spread(new, name)) for name in FIGURES}
    differences = (*dropped(before, after), *_differences(old[0], new[0]))
    return Changes(differences, figures)


def dropped(before: Baseline, after: Baseline) -> Iterator[str]:
    """Give each benchmark that only the first of two baselines holds, and what becomes of it."""
    for name, held in before.sessions.items():
        if held and not after.sessions.get(name):
            why = "had no test any more" if name in after.sessions else "was not recorded again"
            yield f"{name} {why}"


def _change(before: Spread, after: Spread) -> Change:
    ratio = after.median / before.median if before.median else None
    return Change(before.median, after.median, ratio)


def _differences(before: Measurement, after: Measurement) -> Iterator[str]:
    pairs = {
        "device": (before.device.key, after.device.key),
        "data and configuration": (before.fingerprint, after.fingerprint),
    }
    if host_difference(before.host, after.host):
        pairs["host"] = (host_class(before.host), host_class(after.host))
    for name in sorted({*before.versions, *after.versions}):
        pairs[name] = (before.versions.get(name, "none"), after.versions.get(name, "none"))
    for what, (old, new) in pairs.items():
        if old != new:
            yield f"{what}: {old}, then {new}"


def superfluous(baselines: Sequence[Baseline], keep: int) -> tuple[Path, ...]:
    """Return which baselines of one device may go.

    The latest stay, and for each benchmark and class of host the newest that holds it, and the
    oldest that this one can be compared with: from it small steps are added up.

    Args:
        baselines: All of one device, the latest last.
        keep: How many of the latest stay, at least 1.
    """
    kept = {one.path for one in baselines[-keep:]}
    hosts = {host_class(one.host): one.host for held in baselines for one in sessions(held)}
    for name, host in product(find_holders(baselines), hosts.values()):
        holder = find_holder(name, baselines, host)
        assert holder is not None
        kept.add(holder.path)
        for metric in chain.from_iterable(GATED.values()):
            comparable = (
                one.path
                for one in baselines
                if (then := one.sessions.get(name))
                and not why_not_comparable(metric, holder.sessions[name][-1], then[0])
            )
            kept.add(next(comparable, holder.path))
    return tuple(one.path for one in baselines if one.path not in kept)
