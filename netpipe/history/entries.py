"""The file of a repository's results, and the metrics in it over commits."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

from netpipe.device.host import host_class
from netpipe.errors import InputError
from netpipe.files.text_files import MAX_JSON_BYTES, parse_json, read_text
from netpipe.files.whole_file import write_whole
from netpipe.gate.metrics import MAX_BUSY_FRACTION, METRICS, Metric
from netpipe.gate.work_baselines import work_key
from netpipe.history.change_points import MIN_NOISE, cut_levels
from netpipe.results.documents import check_document, check_schema
from netpipe.results.fields import Document, Text, parse
from netpipe.results.measurement import Measurement, parse_measurement
from netpipe.results.units import format_metric, format_number
from netpipe.results.work_profile import DATA_KINDS, KINDS, WorkProfile

_WAY_OUT: Final = "netpipe history add writes such a file"

_Key = tuple[str, ...]


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
    values: Mapping[str, Mapping[str, float]]

    def list_values(self) -> Iterator[tuple[str, str, float]]:
        """Yield each test with the name and value of each of its metrics."""
        for test, metrics in self.values.items():
            for name, value in metrics.items():
                yield test, name, value


def make_entries(run: Mapping[str, Any], commit: str, date: str, where: object) -> list[Entry]:
    """Return the entries of a `netpipe.run/1` document; `where` names its file in errors.

    Raises:
        InputError: The document holds neither a metric that can be kept nor a count of work.
    """
    found: dict[_Key, list[float]] = defaultdict(list)
    for printed in run["measurements"]:
        session = parse_measurement(printed, where)
        place = session.device.key, host_class(session.host), session.fingerprint
        for metric in METRICS.values():
            if is_steady(metric, session):
                found[*place, printed.get("test", ""), metric.name].append(metric.value(session))
    for counted in run.get("work", ()):
        profile = parse(counted, WorkProfile, where)
        place = "", "", f"{profile.fingerprint} {work_key(profile.versions)}".strip()
        for kind in {*profile.counts}.difference(DATA_KINDS):
            lowest = sum(low for low, _ in profile.ranges(kind).values())
            found[*place, counted.get("test", ""), kind].append(lowest)
    if not found:
        constraint = "hold a metric that can be kept, or counts of work"
        way_out = "Steps on a device that shares its cores with the loader are not kept"
        raise InputError(where, "measurements", constraint, "none", way_out)
    entries: dict[_Key, dict[str, dict[str, float]]] = {}
    for (*at, test, name), values in sorted(found.items()):
        entries.setdefault((*at,), {}).setdefault(test, {})[name] = float(median(values))
    return [
        Entry(commit, date, device, host, data, tests)
        for (device, host, data), tests in entries.items()
    ]


def is_steady(metric: Metric, session: Measurement) -> bool:
    """Return whether a session has a metric, and other programs and the step did not move it."""
    is_disturbed = metric.is_host_time and session.busy_elsewhere_fraction > MAX_BUSY_FRACTION
    return metric.is_in(session) and metric.is_judged_on(session.device) and not is_disturbed


def append_entries(path: Path, entries: Iterable[Entry], option: str) -> None:
    """Append entries to the file of an option, which is made if there is none.

    Raises:
        InputError: The file is not a history, or cannot be written.
    """
    kept = [*(read_entries(path) if path.exists() else ()), *entries]
    lines = (json.dumps(entry.to_document(), allow_nan=False) + "\n" for entry in kept)
    write_whole(path, "".join(lines), option)


def read_entries(path: Path) -> list[Entry]:
    """Return the entries of a file, in the order of its lines.

    Raises:
        InputError: The file cannot be read, or a line is not an entry.
    """
    try:
        text = read_text(path, MAX_JSON_BYTES, _WAY_OUT)
    except UnicodeDecodeError as error:
        raise InputError(path, "file", "be UTF-8", error, _WAY_OUT) from error
    entries, where = [], ""
    try:
        for number, line in enumerate(text.splitlines(), 1):
            where = f"{path}, line {number}"
            if line.strip():
                document = parse_json(line)
                schema = document.get("schema") if isinstance(document, dict) else None
                check_schema(schema, (Entry.SCHEMA,), where, way_out=_WAY_OUT)
                check_document(document, "history.1", where)
                entries.append(parse(document, Entry, where))
                datetime.fromisoformat(entries[-1].date).astimezone()
    except (ValueError, OverflowError, RecursionError) as error:
        raise InputError(where, "line", "be JSON with an ISO 8601 date", error, _WAY_OUT) from error
    return entries


def find_metric(name: str) -> Metric:
    """Return the metric of a name; of a kind of work, less is better."""
    unit = KINDS[name].unit if name in KINDS else ""
    return METRICS.get(name) or Metric(name, unit, lower_is_better=True, bound=0)


@dataclass(frozen=True)
class Level:
    """The median value of the commits `begin` to `end - 1`, which were found by their levels."""

    begin: int
    end: int
    value: float


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
    def place(self) -> str:
        """The test, and the device unless counts of work are equal on every device."""
        return f"{self.test} {self.commits[-1].device}".rstrip()

    @cached_property
    def changes(self) -> list[tuple[Level, Level]]:
        """The levels before and after each change, the oldest first."""
        cuts = cut_levels(list(map(find_metric(self.metric).to_level, self.values)))
        spans = pairwise([0, *cuts, len(self.values)])
        return [*pairwise(Level(*span, median(self.values[slice(*span)])) for span in spans)]

    def is_worse(self, before: Level, after: Level, margin: float = 0.0) -> bool:
        """Return whether a level is worse than another."""
        to_level = find_metric(self.metric).to_level
        return to_level(after.value) > to_level(before.value) + margin

    @property
    def is_worse_now(self) -> bool:
        """Whether the last level is worse than one that the metric became worse than."""
        worse = (before for before, after in self.changes if self.is_worse(before, after))
        return any(self.is_worse(each, self.changes[-1][1], MIN_NOISE) for each in worse)

    def format(self, value: float) -> str:
        """Format a value with its unit."""
        kind = KINDS.get(self.metric)
        return kind.format(value) if kind else format_metric(self.metric, value)

    def describe(self, before: Level, after: Level) -> str:
        """Return a sentence about a change, without the test and the device."""
        metric, commit = find_metric(self.metric), self.commits[after.begin]
        has_percent = before.value > 0 and not metric.is_share
        percent = 100 * abs(after.value / before.value - 1) if has_percent else 0.0
        by = f" by {format_number(percent, 2)}%" * has_percent
        rose = "rose" if after.value > before.value else "fell"
        worse = "worse" if self.is_worse(before, after) else "better"
        return (
            f"{self.metric} {rose}{by} ({worse}) at about {commit.commit[:9]} of "
            f"{commit.date[:10]}: {self.format(before.value)} in {before.end - before.begin} "
            f"commits, then {self.format(after.value)} in {after.end - after.begin}"
        )


def list_series(entries: Iterable[Entry]) -> list[Series]:
    """Return the metrics of each test on each device, in the order of the commits' dates.

    Other data, other packages, or another class of host for a metric that depends on it, begin
    another series.
    """
    found: dict[_Key, dict[str, tuple[Entry, list[float]]]] = defaultdict(dict)
    latest: dict[_Key, str] = {}
    # A commit's date has the time zone of its committer.
    for entry in sorted(entries, key=lambda each: datetime.fromisoformat(each.date).astimezone()):
        for test, name, value in entry.list_values():
            host = entry.host if find_metric(name).depends_on_host else ""
            key: _Key = (test, name, entry.device, host, entry.data)
            found[key].setdefault(entry.commit, (entry, []))[1].append(value)
            latest[key[:3]] = entry.commit
    series = []
    for key, commits in found.items():
        taken, values = zip(*commits.values(), strict=True)
        has_ended = latest[key[:3]] not in commits
        series.append(Series(key[0], key[1], taken, tuple(map(median, values)), has_ended))
    return series
