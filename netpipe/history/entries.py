"""The file of a repository's results, with a line for each commit and device."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import log
from pathlib import Path
from statistics import median
from typing import Any, Final

from netpipe.device.host import host_class
from netpipe.errors import InputError
from netpipe.files.text_files import parse_json
from netpipe.files.whole_file import write_whole
from netpipe.gate.metrics import METRICS, Metric
from netpipe.gate.outcomes import NO_WORSE, Outcome
from netpipe.results.documents import check_document, check_schema
from netpipe.results.fields import Document, Text, parse
from netpipe.results.measurement import Measurement, parse_measurement
from netpipe.results.units import format_metric
from netpipe.results.work_profile import DATA_KINDS, KINDS

# If other programs take more of the host's CPU time, times on the host say little about the code.
_MAX_BUSY_FRACTION: Final = 0.1
# The logarithm of 0 is not finite, and a count of work may be 0.
_SMALLEST_COUNT: Final = 1e-12
_JUDGED: Final = (*NO_WORSE, Outcome.REGRESSED)
_WAY_OUT: Final = "netpipe history add writes such a file"

Values = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Entry(Document):
    """The results of a commit on one device.

    Attributes:
        date: The time of the commit, as ISO 8601.
        device: The key of the device; empty for counts of work, which belong to no device.
        host: The class of the host; empty for counts of work.
        data: Identifies the data and configuration; empty for counts of work.
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
    """A metric of a test over commits, the oldest first, on one device and class of host.

    Attributes:
        commits: An entry for each commit.
        values: The metric's value at each commit, in its unit; the median if it has several.
    """

    test: str
    metric: str
    commits: tuple[Entry, ...]
    values: tuple[float, ...]

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

    Left out are metrics that tell nothing, and kinds of work that this run did not judge: which
    parts of them were counted depends on the baseline.

    Raises:
        InputError: The document holds neither a session nor a count of work.
    """
    found: dict[tuple[str, str, str], dict[str, dict[str, list[float]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for printed in run["measurements"]:
        session = parse_measurement(printed, where)
        place = session.device.key, host_class(session.host), session.fingerprint
        for metric in METRICS.values():
            if is_telling(metric, session):
                found[place][printed["test"]][metric.name].append(metric.value(session))
    for row in run["comparisons"]:
        is_judged = row["metric"] in KINDS and row["outcome"] in _JUDGED
        if is_judged and row["metric"] not in DATA_KINDS and not row["against"]:
            found["", "", ""][row["benchmark"]][row["metric"]].append(row["now"])
    if not found:
        raise InputError(where, "measurements", "hold a session", "none", "Run the tests again")
    return [
        Entry(
            commit, date, *place, {test: _take_medians(metrics) for test, metrics in each.items()}
        )
        for place, each in found.items()
    ]


def is_telling(metric: Metric, session: Measurement) -> bool:
    """Return whether a session has a metric that its device, and other programs, leave steady."""
    is_disturbed = metric.is_host_time and session.busy_elsewhere_fraction > _MAX_BUSY_FRACTION
    return metric.is_in(session) and metric.is_judged_on(session.device) and not is_disturbed


def _take_medians(metrics: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: float(median(values)) for name, values in metrics.items()}


def append_entries(path: Path, entries: Iterable[Entry], option: str) -> None:
    """Append entries to the file of an option, which is made if there is none.

    Raises:
        InputError: The file is not a history, or cannot be written.
    """
    before = path.read_text("utf-8") if path.exists() and read_entries(path) else ""
    lines = (json.dumps(entry.to_document(), allow_nan=False) + "\n" for entry in entries)
    write_whole(path, before + "".join(lines), option)


def read_entries(path: Path) -> list[Entry]:
    """Return the entries of a file, in the order in which they were added.

    Raises:
        InputError: The file cannot be read, or a line is not an entry.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(path, "file", "be a readable history", error, _WAY_OUT) from error
    return [_parse_entry(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]


def _parse_entry(line: str, where: str) -> Entry:
    try:
        document = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise InputError(where, "line", "be JSON", error, _WAY_OUT) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    check_schema(schema, (Entry.SCHEMA,), where, way_out=_WAY_OUT)
    check_document(document, "history.1", where)
    return parse(document, Entry, where)


def list_series(entries: Iterable[Entry]) -> Iterator[Series]:
    """Yield the metrics of each test; other data, or another host, begins another series."""
    found: dict[tuple[str, ...], list[tuple[Entry, float]]] = defaultdict(list)
    for entry in entries:
        for test, metrics in entry.values.items():
            for name, value in metrics.items():
                metric = METRICS.get(name)
                host = entry.host if metric is None or metric.depends_on_host else ""
                found[test, name, entry.device, host, entry.data].append((entry, value))
    for (test, name, *_), measured in found.items():
        commits, values = list[Entry](), list[float]()
        for _, group in groupby(measured, lambda each: each[0].commit):
            of_commit = list(group)
            commits.append(of_commit[-1][0])
            values.append(median(value for _, value in of_commit))
        yield Series(test, name, tuple(commits), tuple(values))
