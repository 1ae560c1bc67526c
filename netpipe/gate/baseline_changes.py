"""What a change does to the baselines: which file, and old and new side by side."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from netpipe.errors import InputError
from netpipe.gate.baseline import Baseline, baseline_paths, latest, load
from netpipe.gate.history import Changes, changes, dropped
from netpipe.results.units import format_metric
from netpipe.verdict.report import new_table

Kind = Literal["added", "removed", "replaced"]


@dataclass(frozen=True)
class FileChange:
    """A baseline's file that is not what it was.

    Attributes:
        kind: What became of it.
        file: `<device key>/NNNN_<name>.json`.
        before: What the device was compared with, or what the file held; None for nothing, or
            nothing that can be read.
        after: What it will be compared with, or what the file holds; None for nothing.
    """

    kind: Kind
    file: str
    before: Baseline | None
    after: Baseline | None

    @property
    def device(self) -> str:
        """The device key."""
        return self.file.partition("/")[0]

    @property
    def figures(self) -> Changes | None:
        """Old and new side by side; None where one of them is not there."""
        if self.before is None or self.after is None:
            return None
        return changes(self.before, self.after)

    @property
    def dropped(self) -> tuple[str, ...]:
        """The benchmarks that the old one holds and the new one does not, each with the reason."""
        if self.before is None or self.after is None:
            return ()
        return tuple(dropped(self.before, self.after))

    def to_document(self) -> dict[str, Any]:
        """Give what `netpipe/schemas/run.1.json` says of it."""
        figures = self.figures
        return {
            "change": self.kind,
            "file": self.file,
            "before": self.before and self.before.path.name,
            "after": self.after and self.after.path.name,
            "differences": list(figures.differences) if figures else [],
            "figures": {name: asdict(one) for name, one in figures.figures.items()}
            if figures
            else None,
        }


def file_changes(before: Path, after: Path) -> Iterator[FileChange]:
    """Tell what is not alike in two folders of baselines, by device key and number.

    Args:
        before: The accepted baselines; where one is damaged, there is nothing to put beside.
        after: The proposed ones.

    Raises:
        InputError: A baseline that would become the one compared with is damaged, or two are.
    """
    old, new = _files(before), _files(after)
    for file in sorted({*old, *new}):
        was, now = old.get(file), new.get(file)
        if was is None or now is None or was.read_bytes() != now.read_bytes():
            device = file.partition("/")[0]
            kind: Kind = "added" if was is None else "removed" if now is None else "replaced"
            held = _readable(before / device, was)
            yield FileChange(kind, file, held, _held(after / device, now))


def _files(folder: Path) -> dict[str, Path]:
    return {
        f"{device.name}/{path.name}": path
        for device in folder.glob("*/")
        for path in baseline_paths(device)
    }


def _held(folder: Path, path: Path | None) -> Baseline | None:
    """Read a file; without one, what its device is compared with."""
    compared_with = latest(folder)  # which also refuses two of one number
    return compared_with if path is None else load(path)


def _readable(folder: Path, path: Path | None) -> Baseline | None:
    try:
        return _held(folder, path)
    except InputError:
        return None


def change_table(found: Changes, title: str = "baseline changed") -> Table:
    """Return one row for each figure of two baselines: before, after, and their ratio."""
    table = new_table(title)
    for heading in ("figure", "before", "after", "after / before"):
        table.add_column(heading, no_wrap=True)
    for name, one in found.figures.items():
        table.add_row(
            name,
            format_metric(name, one.before),
            format_metric(name, one.after),
            "" if one.ratio is None else f"{one.ratio:.2f} x",
        )
    return table
