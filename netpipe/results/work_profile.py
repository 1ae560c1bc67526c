"""Work profiles: exact counts of the work that a loader and a step do for one batch. Pure."""

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Final, TypeVar

from netpipe.results.fields import Amount, Count, Document, MayBeAbsent, PositiveCount, Text
from netpipe.results.units import format_bytes, format_number

SCHEMA: Final = "netpipe.work/1"

_SHOWN_PARTS: Final = 5
_Part = TypeVar("_Part")

WARM_UP_BATCHES: Final = 2
"""The number of batches that are pulled before counting begins."""

MAX_EPOCH_BATCHES: Final = 64
"""Longer epochs are not counted; their length is that of the loader, if it has one."""

UNSTABLE_FRACTION: Final = 0.001
"""A count that differs by more than this fraction between processes is not reproducible."""


@dataclass(frozen=True)
class WorkKind:
    """A kind of work; a higher count is worse."""

    name: str
    unit: str
    parts: str  #: The parts of the count: functions, stages or arrays; "": it is not split.
    sentence: str  #: What a part that rose does; "" for the kinds in `DATA_KINDS`.

    @property
    def resolution(self) -> float:
        """The smallest meaningful difference per batch, in the unit."""
        # Reading the counter adds some bytes to it.
        return 64.0 if self.name == "read_bytes" else 0.0

    def format(self, value: float) -> str:
        """Format a value with its unit: `3.1 MB`, `128 calls`."""
        if self.unit != "B":
            unit = self.unit.removesuffix("s") if value == 1 else self.unit
            return f"{format_number(value, 4)} {unit}"
        return format_bytes(value)


KINDS: Final = {
    kind.name: kind
    for kind in (
        WorkKind("calls", "calls", "functions", "{part}: {now} per batch instead of {then}"),
        WorkKind("allocations", "allocations", "functions",
            "{part} makes {now} per batch instead of {then}"),
        WorkKind("allocated_bytes", "B", "functions",
            "{part} allocates {now} per batch instead of {then}"),
        WorkKind("elements", "elements", "stages",
            "{part} gives {now} per batch instead of {then}"),
        WorkKind("element_bytes", "B", "stages",
            "the elements of {part} take {now} per batch instead of {then}"),
        WorkKind("sent_bytes", "B", "",
            "a batch crosses processes as {now} instead of {then}"),
        WorkKind("read_bytes", "B", "", "the process reads {now} per batch instead of {then}"),
        WorkKind("batch_bytes", "B", "arrays", "{part} takes {now} of a batch instead of {then}"),
        WorkKind("padding", "elements", "",
            "{now} of a batch are padding instead of {then}"),
        WorkKind("step_flops", "FLOPs", "", "the step computes {now} instead of {then}"),
        WorkKind("step_accessed_bytes", "B", "", "the step accesses {now} instead of {then}"),
        WorkKind("step_temporary_bytes", "B", "",
            "the step needs {now} of temporary memory instead of {then}"),
        WorkKind("step_kept_state_bytes", "B", "",
            "a step leaves {now} of its old state allocated instead of {then}: not all is donated"),
        WorkKind("step_compilations", "compilations", "",
            "the step takes {now} instead of {then}"),
        WorkKind("contents", "batches", "", ""),
        WorkKind("epoch_batches", "batches", "", ""),
    )
}  # fmt: skip
"""Every kind of work by name, in the order in which tables list them."""

DATA_KINDS: Final = ("contents", "epoch_batches")
"""The kinds that describe the batches instead of counting work; every change is worse."""


@dataclass(frozen=True)
class WorkProfile(Document):
    """Exact counts, equal on every host, of the work that a loader and a step do for one batch."""

    SCHEMA = SCHEMA

    versions: Mapping[str, str]  #: Versions of Python and the packages that do the work, by name.
    batches: PositiveCount  #: Number of batches over which the loader's counts are averaged.
    fingerprint: str = ""  #: Identifies the data and configuration; only equal ones are compared.
    #: The versions and the platform that the step was compiled with; empty without a step.
    step_backend: str = ""
    #: The reproducible counts per batch, by kind and part (a function, a stage or an array); a kind
    #: without parts has one part with an empty name.
    counts: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)
    #: The calls of each function per batch, by the function that calls it, including functions
    #: that only one batch calls, which are not in the counts.
    callers: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)
    #: The arrays of a batch: dtype and shape by name, such as int32[128,1024].
    arrays: Mapping[str, str] = field(default_factory=dict)
    #: A digest of each counted batch; empty if the batches differ between processes.
    contents: MayBeAbsent[tuple[Text, ...]] = ()
    #: Number of batches in an epoch; None if it has at least 64 and the loader has no length.
    epoch_batches: MayBeAbsent[PositiveCount | None] = None
    #: The lowest and the highest count, by kind and part, if processes differ.
    dropped: Mapping[str, Mapping[str, tuple[Amount, Amount]]] = field(default_factory=dict)
    #: Why a kind cannot be counted on this machine or for this loader, by kind.
    not_counted: Mapping[str, str] = field(default_factory=dict)
    processes: MayBeAbsent[PositiveCount] = 1  #: Number of processes that counted the work.
    #: Number of the loader's threads and processes besides the counted thread.
    tasks_beside: MayBeAbsent[Count] = 0
    #: CPU seconds with all threads and children, the lowest of any process; 0: not known.
    cpu_s_per_batch: MayBeAbsent[Amount] = 0.0

    def __post_init__(self) -> None:
        """Omit the kinds that only a newer netpipe counts."""
        for name in ("counts", "dropped"):
            known = {kind: of for kind, of in getattr(self, name).items() if kind in KINDS}
            object.__setattr__(self, name, known)

    @property
    def least_epoch_batches(self) -> int:
        """The number of batches in an epoch, or as many as were tried; 0: not known."""
        # Profiles of older versions hold neither.
        is_tried = bool(self.contents or "contents" in self.not_counted)
        is_long = is_tried and "epoch_batches" not in self.not_counted
        return self.epoch_batches or MAX_EPOCH_BATCHES * is_long

    @property
    def epoch(self) -> str:
        """The number of batches in an epoch, in words."""
        return (
            KINDS["epoch_batches"].format(self.epoch_batches)
            if self.epoch_batches
            else f"at least {MAX_EPOCH_BATCHES} batches"
        )

    @property
    def scope(self) -> str:
        """The batches, numbered from 0, and the code whose work is counted."""
        first, last = WARM_UP_BATCHES, WARM_UP_BATCHES + self.batches - 1
        beside = f", nor {self.tasks_beside} other threads and processes" * bool(self.tasks_beside)
        seen = "in one thread; Python and C calls, not the time inside C"
        once = self.callers.keys() - self.ranges("calls").keys()
        names = [name for name in self.callers if name in once and not once & {*self.callers[name]}]
        left_out = f"; left out, as one batch alone calls it: {', '.join(names)}" * bool(names)
        return f"batches {first} to {last} {seen}{beside}; an epoch has {self.epoch}{left_out}"

    @property
    def kinds(self) -> set[str]:
        """The kinds that were counted."""
        data = {name for name in DATA_KINDS if getattr(self, name)}
        return {*self.counts} | data

    def total(self, kind: str) -> float:
        """Return the count of a kind over all of its parts, per batch."""
        return sum(self.counts[kind].values())

    def ranges(self, kind: str) -> Mapping[str, tuple[float, float]]:
        """Return the lowest and the highest count of each part of a kind."""
        exact = {part: (count, count) for part, count in self.counts.get(kind, {}).items()}
        return {**exact, **self.dropped.get(kind, {})}

    def largest_parts(self, kind: str) -> list[tuple[str, float]]:
        """Return a kind's named parts with the highest counts, and their counts per batch."""
        named = (item for item in self.counts[kind].items() if item[0])
        return sorted(named, key=itemgetter(1), reverse=True)[:_SHOWN_PARTS]


def is_of_step(kind: str) -> bool:
    """Return whether a kind of work is done by a step, not by a loader."""
    return kind.startswith("step_")


def keep_own(profiles: Sequence[WorkProfile], packages: Collection[str]) -> list[WorkProfile]:
    """Omit the functions that other releases of Python and of these packages may change.

    A call is kept if its caller is neither in a package nor in Python's library, and its function
    not in a package. An allocation is kept if its function is in none of them. A function whose
    calls differ between processes is omitted if a package or Python's library calls it.
    """
    libraries = {*packages, *sys.stdlib_module_names, ""}

    def is_in(function: str, modules: Collection[str]) -> bool:
        # The name of generated code, such as a dataclass's __init__, begins with <string>.
        return function.startswith("<") or function.partition(".")[0] in modules

    unclear = {
        part
        for profile in profiles
        for part in profile.dropped.get("calls", ())
        if any(
            is_in(caller, libraries) for each in profiles for caller in each.callers.get(part, ())
        )
    }

    def keep(profile: WorkProfile) -> WorkProfile:
        by_own = {
            function: sum(count for caller, count in calls.items() if not is_in(caller, libraries))
            for function, calls in profile.callers.items()
            if function not in unclear and not is_in(function, packages)
        }

        def own_parts(kind: str, parts: Mapping[str, _Part]) -> dict[str, _Part]:
            kept = by_own.get if kind == "calls" else lambda part: not is_in(part, libraries)
            is_of_functions = KINDS[kind].parts == "functions"
            return {part: of for part, of in parts.items() if not is_of_functions or kept(part)}

        counts = {kind: own_parts(kind, parts) for kind, parts in profile.counts.items()}
        if "calls" in counts:
            counts["calls"] = {function: by_own[function] for function in counts["calls"]}
        dropped = {kind: own_parts(kind, parts) for kind, parts in profile.dropped.items()}
        return replace(profile, counts=counts, dropped=dropped)

    return [keep(profile) for profile in profiles]


def keep_reproducible(profiles: Sequence[WorkProfile]) -> WorkProfile:
    """Combine profiles of the same code, keeping only the counts on which they agree.

    A profile may itself be a combination. Kinds that one of them could not count are dropped.
    """
    first = profiles[0]
    not_counted = {name: why for profile in profiles for name, why in profile.not_counted.items()}
    data: dict[str, Any] = {}
    for kind in DATA_KINDS:
        data[kind] = getattr(first, kind)
        if any(getattr(profile, kind) != data[kind] for profile in profiles):
            data[kind] = WorkProfile.__dataclass_fields__[kind].default
            not_counted[kind] = "processes of the same code differ in it"
    counted = {kind for profile in profiles for kind in profile.counts} - not_counted.keys()
    counts, dropped = dict[str, dict[str, float]](), dict[str, dict[str, tuple[float, float]]]()
    for kind in (kind for kind in KINDS if kind in counted):
        counts[kind] = {}
        every = [profile.ranges(kind) for profile in profiles]
        for part in dict.fromkeys(part for parts in every for part in parts):
            lows, highs = zip(*(parts.get(part, (0.0, 0.0)) for parts in every), strict=True)
            allowed = max(KINDS[kind].resolution, UNSTABLE_FRACTION * max(highs))
            if max(highs) - min(lows) <= allowed:
                counts[kind][part] = lows[0]
            else:
                dropped.setdefault(kind, {})[part] = (min(lows), max(highs))
    return replace(
        first, counts=counts, dropped=dropped, not_counted=not_counted, **data,
        processes=sum(profile.processes for profile in profiles),
        tasks_beside=max(profile.tasks_beside for profile in profiles),
        cpu_s_per_batch=min(profile.cpu_s_per_batch for profile in profiles),
    )  # fmt: skip
