"""Baselines: accepted results of a device key, in pytest-benchmark's own files.

`stats.data` of a benchmark holds one median per session; what pytest-benchmark has no place for
lies under the top-level key `netpipe`.
"""

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from netpipe.errors import InputError
from netpipe.harness.measurement import Measurement, measurement_from

SCHEMA: Final = "netpipe.baseline/1"
_NUMBERED = re.compile(r"(?P<number>\d{4})_.+\.json")


@dataclass(frozen=True)
class Baseline:
    """One accepted recording.

    Attributes:
        path: Its file.
        recorded: When, as ISO 8601.
        commit: The commit that was measured.
        sessions: The sessions of every benchmark, by the benchmark's full name.
    """

    path: Path
    recorded: str
    commit: str
    sessions: Mapping[str, tuple[Measurement, ...]]


def latest(folder: Path) -> Baseline | None:
    """Read the baseline with the highest number in `<baselines>/<device key>`.

    Returns:
        The baseline, or None where there is none.

    Raises:
        InputError: Two files share the highest number, or the file is not a baseline.
    """
    numbered = sorted(path for path in folder.glob("*.json") if _NUMBERED.fullmatch(path.name))
    if not numbered:
        return None
    newest = [path for path in numbered if path.name[:4] == numbered[-1].name[:4]]
    if len(newest) > 1:
        raise InputError(
            folder,
            "number",
            "be used by one baseline",
            " and ".join(path.name for path in newest),
            "Two branches recorded: keep one, or record again",
        )
    return load(newest[0])


def load(path: Path) -> Baseline:
    """Read one baseline file.

    Raises:
        InputError: It is not a baseline of this version.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(path, "file", "be readable", error.strerror) from error
    except ValueError as error:
        raise InputError(path, "file", "be JSON", error, "Record it again") from error
    ours = document.get("netpipe") if isinstance(document, dict) else None
    if not isinstance(ours, dict) or ours.get("schema") != SCHEMA:
        found = ours.get("schema") if isinstance(ours, dict) else None
        raise InputError(path, "netpipe.schema", f"be {SCHEMA}", repr(found), "Record it again")
    try:
        return Baseline(
            path=path,
            recorded=str(document["datetime"]),
            commit=str(document["commit_info"].get("id")),
            sessions=_sessions(ours, path),
        )
    except (KeyError, IndexError, AttributeError, TypeError) as error:
        raise InputError(path, "baseline", "hold every field", repr(error)) from error


def save(
    folder: Path,
    name: str,
    document: Mapping[str, Any],
    sessions: Mapping[str, tuple[Measurement, ...]],
) -> Path:
    """Write a baseline under the next number; nothing half written is ever seen.

    Args:
        folder: `<baselines>/<device key>`; made when missing.
        name: What to call it, after its number.
        document: pytest-benchmark's own document.
        sessions: The sessions of every benchmark, by the benchmark's full name.

    Returns:
        The file written.

    Raises:
        InputError: The folder cannot be written to.
    """
    text = json.dumps(
        {**document, "netpipe": _ours(sessions)}, indent=1, allow_nan=False, default=str
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _written(folder, name, text + "\n")
    except OSError as error:
        raise InputError(folder, "folder", "be writable", error.strerror) from error


def _ours(sessions: Mapping[str, tuple[Measurement, ...]]) -> dict[str, Any]:
    """Return what lies under `netpipe`: every session once, and which of them a benchmark has."""
    every: list[Measurement] = []
    places: dict[str, list[int]] = {}
    for benchmark, measured in sessions.items():
        every += [one for one in measured if one not in every]
        places[benchmark] = [every.index(one) for one in measured]
    return {
        "schema": SCHEMA,
        "sessions": [one.to_document() for one in every],
        "benchmarks": places,
    }


def _sessions(ours: Mapping[str, Any], path: Path) -> dict[str, tuple[Measurement, ...]]:
    every = [measurement_from(one, path) for one in ours["sessions"]]
    return {
        benchmark: tuple(every[place] for place in places)
        for benchmark, places in ours["benchmarks"].items()
    }


def _written(folder: Path, name: str, text: str) -> Path:
    descriptor, part = tempfile.mkstemp(dir=folder, suffix=".part")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(part).chmod(0o644)
        while True:
            path = folder / f"{_next_number(folder):04}_{name}.json"
            try:
                # Unlike a rename, a link never replaces what another recorder wrote meanwhile.
                path.hardlink_to(part)
            except FileExistsError:
                continue
            return path
    finally:
        Path(part).unlink()


def _next_number(folder: Path) -> int:
    numbers = [
        int(match["number"])
        for path in folder.iterdir()
        if (match := _NUMBERED.fullmatch(path.name))
    ]
    return max(numbers, default=0) + 1
