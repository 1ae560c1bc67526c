"""Baselines: accepted results of a device key, in pytest-benchmark's own files.

`stats.data` of a benchmark holds one median per session; what pytest-benchmark has no place for
lies under the top-level key `netpipe`.
"""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from netpipe.errors import InputError
from netpipe.harness import documents
from netpipe.harness.measurement import Measurement, measurement_from

SCHEMA: Final = "netpipe.baseline/1"
_AGAIN: Final = "Record it again"
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


def numbered(folder: Path) -> list[Path]:
    """Return the files of baselines in `<baselines>/<device key>`, the latest last."""
    return sorted(path for path in folder.glob("*.json") if _NUMBERED.fullmatch(path.name))


def latest(folder: Path) -> Baseline | None:
    """Read the baseline with the highest number in `<baselines>/<device key>`.

    Returns:
        The baseline, or None where there is none.

    Raises:
        InputError: Two files share the highest number, or the file is not a baseline.
    """
    paths = numbered(folder)
    if not paths:
        return None
    newest = [path for path in paths if path.name[:4] == paths[-1].name[:4]]
    if len(newest) > 1:
        raise InputError(
            folder,
            "number",
            "be used by one baseline",
            " and ".join(path.name for path in newest),
            "Two branches recorded: keep one, or record again",
        )
    return load(newest[0])


def oldest(folder: Path) -> Baseline | None:
    """Read the baseline with the lowest number in `<baselines>/<device key>`; None without one.

    Raises:
        InputError: The file is not a baseline.
    """
    paths = numbered(folder)
    return load(paths[0]) if paths else None


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
        raise InputError(path, "file", "be JSON", error, _AGAIN) from error
    _check(document, path)
    return Baseline(
        path=path,
        recorded=document["datetime"],
        commit=str(document["commit_info"].get("id")),
        sessions=_sessions(document["netpipe"], path),
    )


def _check(document: Any, path: Path) -> None:
    """Refuse what is of another version, is not whole, or is not what was recorded.

    Raises:
        InputError: It is; file and field are named.
    """
    ours = document.get("netpipe") if isinstance(document, dict) else None
    found = ours.get("schema") if isinstance(ours, dict) else None
    if found != SCHEMA:
        raise InputError(path, "netpipe.schema", f"be {SCHEMA}", repr(found), _AGAIN)
    documents.check(document, "baseline.1", path, way_out=_AGAIN)
    found = _digest(document)
    if document["netpipe"]["digest"] != found:
        constraint = f"be {found}, that of the content"
        raise InputError(
            path,
            "netpipe.digest",
            constraint,
            document["netpipe"]["digest"],
            f"It was edited. {_AGAIN}",
        )


def _digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a baseline's content, as hexadecimal, apart from its own field."""
    ours = {name: value for name, value in document["netpipe"].items() if name != "digest"}
    content = json.dumps({**document, "netpipe": ours}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


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
    # What JSON has no value for, pytest-benchmark writes as text; the digest is of what is written.
    plain = json.loads(json.dumps({**document, "netpipe": _ours(sessions)}, default=str))
    plain["netpipe"]["digest"] = _digest(plain)
    text = json.dumps(plain, indent=1, allow_nan=False) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _written(folder, name, text)
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
