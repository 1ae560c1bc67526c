"""Baselines: accepted results of a device key, in pytest-benchmark's file format.

`stats.data` of a benchmark holds one median per session. The top-level key `netpipe` holds
everything that pytest-benchmark has no field for.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypedDict

from netpipe.device.host import host_difference
from netpipe.errors import InputError
from netpipe.files.text_files import quote, read_json, shorten
from netpipe.gate.numbered_files import read_number, write_numbered, write_to_temporary
from netpipe.results import documents
from netpipe.results.fields import Count, Must, Text
from netpipe.results.measurement import Host, Measurement, parse_measurement

SCHEMA: Final = "netpipe.baseline/1"
RECORD_AGAIN: Final = "Restore it with git, or remove it and record again"
"""The advice in errors about a damaged baseline."""


class CommitInfo(TypedDict, total=False):
    """The measured commit; it has no id outside a repository."""

    id: str | None  #: The commit's hash.


class OwnPart(TypedDict):
    """netpipe's part of a baseline, for which pytest-benchmark has no field."""

    schema: Literal["netpipe.baseline/1"]
    sessions: Annotated[list[Measurement], Must(minItems=1)]  #: All sessions, each once.
    #: Indices of each benchmark's sessions in `sessions`, by the benchmark's full name. Empty if an
    #: earlier baseline holds the benchmark but its test was removed.
    benchmarks: Mapping[str, list[Count]]
    #: SHA-256 of the file's content without this field, with sorted keys. It reveals manual edits.
    digest: Annotated[str, Must(pattern="^[0-9a-f]{64}$")]


class BaselineDocument(TypedDict):
    """A baseline: pytest-benchmark's own document, and netpipe's part of it."""

    datetime: Text  #: The time of the recording, as ISO 8601.
    commit_info: CommitInfo
    #: pytest-benchmark's own entries; `stats.data` of each holds one median per session.
    benchmarks: list[Annotated[dict[str, object], Must(required=["fullname", "stats"])]]
    netpipe: OwnPart


# Only HTML pages use these fields, and no page shows a baseline.
_ONLY_FOR_PAGES: Final = ("timeline", "distributions", "trace")


@dataclass(frozen=True)
class Baseline:
    """One accepted recording."""

    path: Path
    recorded: str  #: The time of the recording, as ISO 8601.
    commit: str
    #: The sessions of every benchmark, by the benchmark's full name. A benchmark has none if its
    #: test was removed after an earlier baseline.
    sessions: Mapping[str, tuple[Measurement, ...]]
    dirty: bool = False  #: Whether the working tree had uncommitted changes.

    @property
    def name(self) -> str:
        """The device key and file name, which identify the baseline."""
        return f"{self.path.parent.name}/{self.path.name}"

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The names of the benchmarks with sessions, without those whose test was removed."""
        return tuple(name for name, sessions in self.sessions.items() if sessions)

    @property
    def all_sessions(self) -> tuple[Measurement, ...]:
        """All sessions, each once, although benchmarks may share sessions."""
        return tuple(_distinct(self.sessions))


def _distinct(benchmarks: Mapping[str, Sequence[Measurement]]) -> list[Measurement]:
    distinct: list[Measurement] = []
    for sessions in benchmarks.values():
        # Equal sessions of one benchmark are still separate sessions.
        distinct += [session for session in sessions if session not in distinct]
    return distinct


def baseline_paths(folder: Path) -> list[Path]:
    """Return the paths of a folder's baselines, latest last; raise InputError if unreadable."""
    try:
        numbered = filter(read_number, folder.iterdir())
        return sorted(numbered, key=lambda path: (read_number(path), path.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(folder, "folder", "be readable", error.strerror) from error


def load_all(folder: Path) -> tuple[Baseline, ...]:
    """Return every baseline in `<baselines>/<device key>`, latest last.

    Raises:
        InputError: As in `list_all`, or a file is damaged or belongs to another device.
    """
    baselines = tuple(map(load, list_all(folder, SCHEMA)))
    for baseline in reversed(baselines):
        for session in baseline.all_sessions:
            refuse_moved(baseline.path, "device.key", session.device.key)
    return baselines


def list_all(folder: Path, schema: str) -> list[Path]:
    """Return `baseline_paths`; raise InputError for a number used twice, or a file without one."""
    paths = baseline_paths(folder)
    for path in sorted(set(folder.glob("*.json")).difference(paths)):
        # If a renamed baseline were ignored, runs would be compared with an older one.
        with suppress(OSError):
            if schema.encode() in path.read_bytes():
                way_out = "Give it its number back, or remove it"
                raise InputError(path, "name", "be NNNN_<name>.json", path.name, way_out)
    newest = [path.name for path in paths if read_number(path) == read_number(paths[-1])]
    if len(newest) > 1:
        way_out = "Two branches recorded: keep one"
        raise InputError(folder, "number", "be used by one baseline", " and ".join(newest), way_out)
    return paths


def refuse_moved(path: Path, field: str, key: str) -> None:
    """Raise an InputError for a baseline whose key is not the name of its folder."""
    if key != path.parent.name:
        constraint = f"be {path.parent.name}, the name of its folder"
        raise InputError(path, field, constraint, shorten(key), "Move it back")


def find_holders(baselines: Sequence[Baseline]) -> dict[str, Baseline]:
    """Return, for each benchmark that still has a test, the newest baseline that holds it.

    A baseline of only some benchmarks does not remove the others from the gate.
    """
    newest = {name: baseline for baseline in baselines for name in baseline.sessions}
    return {name: baseline for name, baseline in newest.items() if baseline.sessions[name]}


def find_holder(benchmark: str, baselines: Sequence[Baseline], host: Host) -> Baseline | None:
    """Return the baseline to compare a benchmark with; None if there is none.

    This is the newest baseline that holds the benchmark and was recorded on this class of host, or
    else the newest one that holds the benchmark.
    """
    newest = find_holders(baselines).get(benchmark)
    if newest is None:
        return None
    on_same_class = (
        baseline
        for baseline in reversed(baselines)
        if (sessions := baseline.sessions.get(benchmark))
        and not host_difference(host, sessions[0].host)
    )
    return next(on_same_class, newest)


def load(path: Path) -> Baseline:
    """Read one baseline file; raise an InputError if it is not a valid baseline of this schema."""
    document = read_document(path, SCHEMA, "baseline.1")
    ours = document["netpipe"]
    for benchmark, places in ours["benchmarks"].items():
        if max(places, default=0) >= len(ours["sessions"]):
            field = f"netpipe.benchmarks.{shorten(benchmark)}"
            constraint = f"be indices below {len(ours['sessions'])}, the number of sessions"
            raise InputError(path, field, constraint, quote(places), RECORD_AGAIN)
    sessions = [parse_measurement(session, path) for session in ours["sessions"]]
    return Baseline(
        path=path,
        recorded=document["datetime"],
        commit=str(document["commit_info"].get("id")),
        sessions={
            benchmark: tuple(sessions[index] for index in indices)
            for benchmark, indices in ours["benchmarks"].items()
        },
        dirty=bool(document["commit_info"].get("dirty")),
    )


def read_document(path: Path, schema: str, name: str) -> Any:
    """Return a baseline's document; `name` is that of its JSON schema.

    Raises:
        InputError: The document is incomplete, was edited or has another schema.
    """
    document = read_json(path, RECORD_AGAIN)
    ours = document.get("netpipe") if isinstance(document, dict) else None
    found = ours.get("schema") if isinstance(ours, dict) else None
    documents.check_schema(found, (schema,), path, "netpipe.schema", RECORD_AGAIN)
    documents.check_document(document, name, path, way_out=RECORD_AGAIN)
    digest, found = compute_digest(document), document["netpipe"]["digest"]
    if found != digest:
        constraint, way_out = f"be {digest}, that of the content", f"It was edited. {RECORD_AGAIN}"
        raise InputError(path, "netpipe.digest", constraint, found, way_out)
    return document


def compute_digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a baseline's content, excluding the digest field."""
    ours = {name: value for name, value in document["netpipe"].items() if name != "digest"}
    content = json.dumps({**document, "netpipe": ours}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


def save(
    folder: Path,
    name: str,
    document: Mapping[str, Any],
    sessions: Mapping[str, tuple[Measurement, ...]],
) -> Path:
    """Write a baseline, as `write_baseline` does.

    `document` comes from pytest-benchmark; `sessions` has the form of `Baseline.sessions`.
    """
    distinct = _distinct(sessions)
    documents = (session.to_document() for session in distinct)
    own = {
        "schema": SCHEMA,
        "sessions": [
            {key: value for key, value in each.items() if key not in _ONLY_FOR_PAGES}
            for each in documents
        ],
        "benchmarks": {
            benchmark: [distinct.index(session) for session in measured]
            for benchmark, measured in sessions.items()
        },
    }
    return write_baseline(folder, name, {**document, "netpipe": own})


def write_baseline(folder: Path, name: str, document: Mapping[str, Any]) -> Path:
    """Write a baseline and its digest under the next number; readers never see a partial file.

    `folder` is `<baselines>/<device key>` and is created if missing. `name` is the part of the file
    name after the number.

    Raises:
        InputError: The folder cannot be written to; the message says where the baseline was kept.
    """
    # As in pytest-benchmark, values that JSON cannot represent become text, before the digest.
    plain = json.loads(json.dumps(document, default=str))
    plain["netpipe"]["digest"] = compute_digest(plain)
    text = json.dumps(plain, indent=1, allow_nan=False) + "\n"
    try:
        return write_numbered(folder, name, text)
    except OSError as error:
        try:
            way_out = f"It is kept: copy {write_to_temporary(folder, name, text)} there"
        except OSError as second:
            way_out = f"It cannot be kept in a temporary folder either: {second.strerror}"
        raise InputError(folder, "folder", "be writable", error.strerror, way_out) from error
