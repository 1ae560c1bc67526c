"""Two baselines side by side, and the baseline files that a change adds, removes or replaces."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal

from netpipe.device.host import host_class, host_difference
from netpipe.errors import InputError
from netpipe.gate.baseline import Baseline, baseline_paths, load, load_all
from netpipe.gate.work_baselines import WORK_FOLDER, load_work_baselines
from netpipe.results.measurement import Measurement

FIGURES: Final = (
    "load_s_per_batch", "load_cpu_ratio", "step_s", "train_s_per_step", "accelerator_utilisation",
    "headroom", "stall_fraction",
)  # fmt: skip
"""The figures shown for a baseline: fields of a Measurement that hold intervals."""

Kind = Literal["added", "removed", "replaced"]


@dataclass(frozen=True)
class FigureChange:
    """A figure in two baselines; each value is the median over the baseline's sessions."""

    before: float
    after: float
    ratio: float | None


@dataclass(frozen=True)
class BaselineDifference:
    """The differences between two baselines: each of `FIGURES`, and possible reasons."""

    differences: tuple[str, ...]
    figures: Mapping[str, FigureChange]


@dataclass(frozen=True)
class FileChange:
    """A baseline file that the change under test adds, removes or replaces.

    Attributes:
        file: `<device key>/NNNN_<name>.json`.
        before: The file's old content; for an added file, the baseline that the device has been
            compared with so far. None if there is none, or it cannot be read.
        after: The file's new content; for a removed file, the baseline that the device will be
            compared with from now on. None if there is none.
    """

    kind: Kind
    file: str
    before: Baseline | None
    after: Baseline | None

    @property
    def difference(self) -> BaselineDifference | None:
        """The comparison of the old and the new baseline; None if either is missing."""
        if self.before is None or self.after is None:
            return None
        return compare_baselines(self.before, self.after)

    def to_document(self) -> dict[str, Any]:
        """Return the change as an object of `netpipe/schemas/run.1.json`."""
        found = self.difference
        return {
            "change": self.kind,
            "file": self.file,
            "before": self.before and self.before.path.name,
            "after": self.after and self.after.path.name,
            "differences": list(found.differences) if found else [],
            "figures": found and {name: asdict(change) for name, change in found.figures.items()},
        }


def compute_spreads(baseline: Baseline) -> dict[str, dict[str, float]]:
    """Return the low, the median and the high of each of `FIGURES` over a baseline's sessions."""
    sessions, spreads = baseline.all_sessions, {}
    for name in FIGURES:
        medians = sorted(getattr(session, name).median for session in sessions)
        spreads[name] = {"low": medians[0], "median": median(medians), "high": medians[-1]}
    return spreads


def compare_baselines(before: Baseline, after: Baseline) -> BaselineDifference:
    """Compare two baselines figure by figure."""
    spreads = compute_spreads(after)
    figures = {}
    for name, spread in compute_spreads(before).items():
        old, new = spread["median"], spreads[name]["median"]
        figures[name] = FigureChange(old, new, new / old if old else None)
    sessions = before.all_sessions[0], after.all_sessions[0]
    return BaselineDifference((*_dropped(before, after), *_differences(*sessions)), figures)


def _dropped(before: Baseline, after: Baseline) -> Iterator[str]:
    for name in before.benchmarks:
        if not after.sessions.get(name):
            why = "no longer had a test" if name in after.sessions else "was not recorded again"
            yield f"{name} {why}"


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


def file_changes(before: Path, after: Path) -> Iterator[FileChange]:
    """Yield the changed files, ordered by device and number; raise InputError for a damaged one."""
    old, new = _files(before), _files(after)
    for file in sorted({*old, *new}):
        was, now = old.get(file), new.get(file)
        if was is None or now is None or was.read_bytes() != now.read_bytes():
            device = file.partition("/")[0]
            kind: Kind = "added" if was is None else "removed" if now is None else "replaced"
            if device == WORK_FOLDER:
                load_work_baselines((after / file).parent)
                yield FileChange(kind, file, None, None)
                continue
            accepted = None
            with suppress(InputError):
                accepted = _load_or_latest(before / device, was)
            yield FileChange(kind, file, accepted, _load_or_latest(after / device, now))


def _files(folder: Path) -> dict[str, Path]:
    return {
        path.relative_to(folder).as_posix(): path
        for keyed in chain(folder.glob("*/"), folder.glob(f"{WORK_FOLDER}/*/"))
        for path in baseline_paths(keyed)
    }


def _load_or_latest(folder: Path, path: Path | None) -> Baseline | None:
    """Read the file at `path`, or the folder's latest baseline if `path` is None."""
    baselines = load_all(folder)  # Also raises an error if two files share the highest number.
    return next(reversed(baselines), None) if path is None else load(path)
