"""The file of a repository's results, with a line for each commit and device."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import median
from typing import Any, Final

from netpipe.device.host import host_class
from netpipe.errors import InputError
from netpipe.files.text_files import parse_json
from netpipe.files.whole_file import write_whole
from netpipe.gate.metrics import METRICS, Metric
from netpipe.gate.work_baselines import work_key
from netpipe.results.documents import check_document, check_schema
from netpipe.results.fields import Document, Text, parse
from netpipe.results.measurement import Measurement, parse_measurement
from netpipe.results.units import format_metric
from netpipe.results.work_profile import DATA_KINDS, KINDS, WorkProfile

# If other programs take more of the host's CPU time, times on the host say little about the code.
_MAX_BUSY_FRACTION: Final = 0.1
# The logarithm of 0 is not finite, and a count of work may be 0.
_SMALLEST_COUNT: Final = 1e-12
_WAY_OUT: Final = "netpipe history add writes such a file"

_Key = tuple[str, ...]
Values = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Entry(Document):
    """The results of a commit on one device.

    Attributes:
        date: The time of the commit, as ISO 8601.
        device: The key of the device; empty for counts of work, which are equal on every device.
        host: The class of the host; empty for counts of work.
        data: Identifies the data and configuration, and for counts of work the packages.
        values: The value of each metric, or count of work, by test.
    """

    SCHEMA = "netpipe.history/1"

    commit: Text
    date: Text
    device: str
    host: str
    data: str
    values: Values


@dataclass(frozen=True)
class Series:
    """A metric of a test over commits, the oldest first.

    Attributes:
        commits: An entry for each commit.
        values: The metric's value at each commit, in its unit; the median if it has several.
        has_ended: Whether a newer series has other data, another host or other packages.
    """

    test: str
    metric: str
    commits: tuple[Entry, ...]
    values: tuple[float, ...]
    has_ended: bool = False

    @property
    def levels(self) -> list[float]:
        """The values as levels; the difference of two levels is a change, positive if worse."""
        metric = METRICS.get(self.metric)
        if metric is not None:
            return list(map(metric.to_level, self.values))
        return [log(max(value, _SMALLEST_COUNT)) for value in self.values]

    @property
    def device(self) -> str:
        """The key of the device; empty for counts of work."""
        return self.commits[-1].device

    def format(self, value: float) -> str:
        """Format a value with its unit."""
        kind = KINDS.get(self.metric)
        return kind.format(value) if kind else format_metric(self.metric, value)


def make_entries(run: Mapping[str, Any], commit: str, date: str, where: object) -> list[Entry]:
    """Return the entries of a `netpipe.run/1` document; `where` names its file in errors.

    Raises:
        InputError: The document holds neither a metric that can be kept nor a count of work.
    """
    found: dict[tuple[str, str, str], dict[str, dict[str, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for printed in run["measurements"]:
        session = parse_measurement(printed, where)
        place = session.device.key, host_class(session.host), session.fingerprint
        for metric in METRICS.values():
            if is_steady(metric, session):
                found[place][printed["test"]][metric.name].append(metric.value(session))
    for counted in run.get("work", ()):
        profile = parse(counted, WorkProfile, where)
        place = "", "", f"{profile.fingerprint} {work_key(profile.versions)}".strip()
        for kind in {*profile.counts}.difference(DATA_KINDS):
            found[place][counted.get("test", "")][kind].append(profile.total(kind))
    if not found:
        constraint = "hold a metric that can be kept, or counts of work"
        way_out = "Steps on a device that shares its cores with the loader are not kept"
        raise InputError(where, "measurements", constraint, "none", way_out)
    return [
        Entry(commit, date, *place, {test: _take_medians(each) for test, each in tests.items()})
        for place, tests in found.items()
    ]


def is_steady(metric: Metric, session: Measurement) -> bool:
    """Return whether a session has a metric, and other programs and the step did not move it."""
    is_disturbed = metric.is_host_time and session.busy_elsewhere_fraction > _MAX_BUSY_FRACTION
    return metric.is_in(session) and metric.is_judged_on(session.device) and not is_disturbed


def _take_medians(metrics: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: float(median(metrics[name])) for name in sorted(metrics)}


def append_entries(path: Path, entries: Iterable[Entry], option: str) -> None:
    """Append entries to the file of an option, which is made if there is none.

    Raises:
        InputError: The file is not a history, or cannot be written.
    """
    before = read_entries(path) if path.exists() else []
    lines = (
        json.dumps(entry.to_document(), allow_nan=False) + "\n" for entry in (*before, *entries)
    )
    write_whole(path, "".join(lines), option)


def read_entries(path: Path) -> list[Entry]:
    """Return the entries of a file, in the order of its lines.

    Raises:
        InputError: The file cannot be read, or a line is not an entry.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(path, "file", "be a readable history", error, _WAY_OUT) from error
    numbered = ((f"{path}, line {number}", line) for number, line in enumerate(lines, 1))
    return [_parse_entry(line, where) for where, line in numbered if line.strip()]


def _parse_entry(line: str, where: str) -> Entry:
    try:
        document = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise InputError(where, "line", "be JSON", error, _WAY_OUT) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    check_schema(schema, (Entry.SCHEMA,), where, way_out=_WAY_OUT)
    check_document(document, "history.1", where)
    return parse(document, Entry, where)


def list_series(entries: Sequence[Entry]) -> list[Series]:
    """Return the metrics of each test on each device, in the order of the commits' dates.

    Other data, other packages, or another class of host for a metric that depends on it, begin
    another series.
    """
    found: dict[_Key, dict[str, list[tuple[Entry, float]]]] = defaultdict(lambda: defaultdict(list))
    latest: dict[_Key, _Key] = {}
    for entry in sorted(entries, key=lambda each: each.date):
        for test, metrics in entry.values.items():
            for name, value in metrics.items():
                metric = METRICS.get(name)
                host = entry.host if metric is None or metric.depends_on_host else ""
                key: _Key = (test, name, entry.device, host, entry.data)
                found[key][entry.commit].append((entry, value))
                latest[key[:3]] = key
    series = []
    for key, commits in found.items():
        taken = tuple(each[-1][0] for each in commits.values())
        values = tuple(median(value for _, value in each) for each in commits.values())
        has_ended = latest[key[:3]] != key
        series.append(Series(key[0], key[1], taken, values, has_ended))
    return series
