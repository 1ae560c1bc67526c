"""Baselines: accepted results of a device key, in pytest-benchmark's own files.

`stats.data` of a benchmark holds one median per session; what pytest-benchmark has no place for
lies under the top-level key `netpipe`.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from netpipe.device.host import cpu_model, host_difference
from netpipe.errors import InputError
from netpipe.gate.numbered_files import NUMBERED, write_numbered, write_to_temporary
from netpipe.results import documents
from netpipe.results.measurement import Host, Measurement, parse_measurement

SCHEMA: Final = "netpipe.baseline/1"
_AGAIN: Final = "Record it again"
_FOR_A_PICTURE: Final = ("timeline", "distributions", "trace")  # none is made of a baseline
_NEWER: Final = re.compile(r"netpipe\.baseline/([2-9]|[1-9]\d+)")


@dataclass(frozen=True)
class Baseline:
    """One accepted recording.

    Attributes:
        path: Its file.
        recorded: When, as ISO 8601.
        commit: The commit that was measured.
        sessions: The sessions of every benchmark, by the benchmark's full name; none for one that
            earlier baselines hold and that had no test any more.
        dirty: Whether the working tree had changes that were not committed, so that what was
            measured is not the commit.
    """

    path: Path
    recorded: str
    commit: str
    sessions: Mapping[str, tuple[Measurement, ...]]
    dirty: bool = False

    @property
    def name(self) -> str:
        """Its device key and file, which tell it from all others."""
        return f"{self.path.parent.name}/{self.path.name}"


def baseline_paths(folder: Path) -> list[Path]:
    """Return the files of baselines in `<baselines>/<device key>`, the latest last.

    Raises:
        InputError: The folder is there and cannot be read: that is not to have no baseline.
    """
    try:
        return sorted(path for path in folder.iterdir() if NUMBERED.fullmatch(path.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(folder, "folder", "be readable", error.strerror) from error


def load_all(folder: Path) -> tuple[Baseline, ...]:
    """Read every baseline in `<baselines>/<device key>`, the latest last.

    Raises:
        InputError: Two files share the highest number, one is not a baseline of this device, or
            one has lost its number.
    """
    paths = baseline_paths(folder)
    _refuse_without_number(folder)
    newest = [path for path in paths if path.name[:4] == paths[-1].name[:4]]
    if len(newest) > 1:
        raise InputError(
            folder,
            "number",
            "be used by one baseline",
            " and ".join(path.name for path in newest),
            "Two branches recorded: keep one, or record again",
        )
    found = tuple(map(load, paths))
    for one in reversed(found):
        _refuse_other_device(one, folder.name)
    return found


def latest(folder: Path) -> Baseline | None:
    """Read the baseline with the highest number in `<baselines>/<device key>`; None without one.

    Raises:
        InputError: As `load_all` does.
    """
    found = load_all(folder)
    return found[-1] if found else None


def find_holders(baselines: Sequence[Baseline]) -> dict[str, Baseline]:
    """Return the newest baseline that holds each benchmark; those whose test is gone are left out.

    A recording of some benchmarks takes none of the others out of the gate.

    Args:
        baselines: Of one device, the latest last.
    """
    newest = {name: one for one in baselines for name in one.sessions}
    return {name: one for name, one in newest.items() if one.sessions[name]}


def find_holder(benchmark: str, baselines: Sequence[Baseline], host: Host) -> Baseline | None:
    """Return the baseline that a benchmark is compared with; None where its test is gone, or new.

    It is the newest that holds the benchmark and was recorded on a host of this class, or the
    newest that holds it where none was: each class of host has baselines of its own.

    Args:
        benchmark: Its full name.
        baselines: Of one device, the latest last.
        host: Where it was measured now.
    """
    newest = find_holders(baselines).get(benchmark)
    if newest is None:
        return None
    alike = (
        one
        for one in reversed(baselines)
        if (sessions := one.sessions.get(benchmark)) and not host_difference(host, sessions[0].host)
    )
    return next(alike, newest)


def _refuse_without_number(folder: Path) -> None:
    """Refuse a renamed baseline: to pass it over would be to compare with an older one.

    Raises:
        InputError: There is one.
    """
    for path in sorted(folder.glob("*.json")):
        if not NUMBERED.fullmatch(path.name) and _is_ours(path):
            way_out = "Give it its number back, or remove it"
            raise InputError(path, "name", "be NNNN_<name>.json", path.name, way_out)


def _is_ours(path: Path) -> bool:
    with suppress(OSError):
        return SCHEMA.encode() in path.read_bytes()
    return False


def _refuse_other_device(found: Baseline, key: str) -> None:
    """Refuse a baseline that lies in another device's folder.

    Raises:
        InputError: It does.
    """
    for sessions in found.sessions.values():
        for one in sessions:
            if one.device.key != key:
                constraint = f"be {key}, as its folder is called"
                raise InputError(
                    found.path, "device.key", constraint, one.device.key, "Move it back"
                )


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
        sessions=_sessions(document, path),
        dirty=bool(document["commit_info"].get("dirty")),
    )


def _check(document: Any, path: Path) -> None:
    """Refuse what is of another version, is not whole, or is not what was recorded.

    Raises:
        InputError: It is; file and field are named.
    """
    ours = document.get("netpipe") if isinstance(document, dict) else None
    found = ours.get("schema") if isinstance(ours, dict) else None
    if found != SCHEMA:
        newer = isinstance(found, str) and _NEWER.fullmatch(found)
        way_out = "A newer netpipe wrote it: upgrade this one" if newer else _AGAIN
        raise InputError(path, "netpipe.schema", f"be {SCHEMA}", repr(found), way_out)
    documents.check_document(document, "baseline.1", path, way_out=_AGAIN)
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
        InputError: The folder cannot be written to; says where the baseline is kept instead.
    """
    # What JSON has no value for, pytest-benchmark writes as text; the digest is of what is written.
    plain = json.loads(json.dumps({**document, "netpipe": _ours(sessions)}, default=str))
    plain["netpipe"]["digest"] = _digest(plain)
    text = json.dumps(plain, indent=1, allow_nan=False) + "\n"
    try:
        return write_numbered(folder, name, text)
    except OSError as error:
        way_out = _kept(folder, name, text)
        raise InputError(folder, "folder", "be writable", error.strerror, way_out) from error


def _kept(folder: Path, name: str, text: str) -> str:
    """Keep elsewhere what took minutes to measure; say where."""
    try:
        path = write_to_temporary(folder, name, text)
    except OSError as error:
        return f"Nor can it be kept among the temporary files: {error.strerror}"
    return f"It is kept: copy {path} there"


def _ours(sessions: Mapping[str, tuple[Measurement, ...]]) -> dict[str, Any]:
    """Return what lies under `netpipe`: every session once, and which of them a benchmark has."""
    every: list[Measurement] = []
    places: dict[str, list[int]] = {}
    for benchmark, measured in sessions.items():
        every += [one for one in measured if one not in every]
        places[benchmark] = [every.index(one) for one in measured]
    return {
        "schema": SCHEMA,
        "sessions": [_kept_of(one) for one in every],
        "benchmarks": places,
    }


def _kept_of(session: Measurement) -> dict[str, Any]:
    document = session.to_document()
    return {name: value for name, value in document.items() if name not in _FOR_A_PICTURE}


def _sessions(document: Mapping[str, Any], path: Path) -> dict[str, tuple[Measurement, ...]]:
    ours = document["netpipe"]
    every = [
        _with_cpu_model(parse_measurement(one, path), document.get("machine_info", {}))
        for one in ours["sessions"]
    ]
    return {
        benchmark: tuple(every[place] for place in places)
        for benchmark, places in ours["benchmarks"].items()
    }


def _with_cpu_model(session: Measurement, machine_info: Mapping[str, Any]) -> Measurement:
    """Complete the host of an older recording from what pytest-benchmark wrote beside it."""
    if session.host.cpu_model:
        return session
    cpu = machine_info.get("cpu", {})
    model = cpu_model(*map(cpu.get, ("family", "model", "stepping")))
    return replace(session, host=replace(session.host, cpu_model=model))
