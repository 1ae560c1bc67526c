"""Compare work profiles: which counts rose, and which function or stage causes it. Pure.

Counts have no noise, so there are no intervals. A part that is not reproducible has a range; it has
risen if the whole range has. A count has regressed if its total rose beyond the bound. It has also
regressed if one of its parts rose beyond the bound and the other parts did not fall by as much; if
they did, the same work is only done under another name, or in another place. If the total fell
beyond the bound, the count has improved, even if parts of it rose.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final

from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.results.measurement import Interval
from netpipe.results.work_profile import KINDS, WorkKind, WorkProfile, is_of_step

BOUND: Final = 0.01
"""The largest rise of a count that passes, as a fraction."""

_MAX_CAUSES: Final = 5
_NOTHING: Final = (0.0, 0.0)

Counts = Mapping[str, float]
"""Counts per batch, by part."""


def compare_work(now: WorkProfile, then: WorkProfile, baseline: str = "") -> tuple[Comparison, ...]:
    """Compare every kind of work that at least one of two profiles counts.

    `baseline` names the baseline that holds the earlier profile; "" for a profile of another
    version.
    """
    kinds = [kind for name, kind in KINDS.items() if name in {**now.counts, **then.counts}]
    return tuple(replace(_compare_kind(kind, now, then), baseline=baseline) for kind in kinds)


def _compare_kind(kind: WorkKind, now: WorkProfile, then: WorkProfile) -> Comparison:
    after, before = _pair_parts(kind.name, now, then)
    total, total_before = sum(after.values()), sum(before.values())
    if why_not := _why_not_comparable(kind, now, then):
        return Comparison(
            Outcome.NOT_COMPARED, kind.name, total,
            total_before if kind.name in then.counts else None,
            f"{kind.name} cannot be compared: {why_not}", why_not=why_not,
        )  # fmt: skip
    rises = {part: after.get(part, 0.0) - before.get(part, 0.0) for part in {**after, **before}}
    rise = sum(change for change in rises.values() if change > 0)
    fall = -sum(change for change in rises.values() if change < 0)
    exceeds = partial(_exceeds, resolution=kind.resolution)
    risen = [part for part in rises if exceeds(after.get(part, 0.0), before.get(part, 0.0))]
    outcome, causes = Outcome.PASS, list[str]()
    if exceeds(total_before, total):
        outcome = Outcome.IMPROVED
    elif exceeds(total, total_before) or (risen and exceeds(rise, fall)):
        outcome = Outcome.REGRESSED
        largest_first = sorted(risen, key=lambda part: -rises[part])
        if kind.name == "calls":
            largest_first = _find_origins({part: rises[part] for part in risen}, now, then)
        causes = list(_describe(kind, largest_first, after, before, now, then))
    more, less = kind.format(total), kind.format(total_before)
    change = ", as before" if more == less else f" instead of {less}"
    figures = f"{kind.name}: {more} per batch{change}"
    ratio = total / total_before if total_before else 1.0 if not total else inf
    return Comparison(
        outcome, kind.name, total, total_before, "; ".join((figures, *causes)),
        worse=Interval(ratio, ratio, ratio, now.batches), bound=1 + BOUND,
    )  # fmt: skip


def _exceeds(more: float, less: float, resolution: float = 0.0) -> bool:
    return more > less * (1 + BOUND) + resolution


def _pair_parts(kind: str, now: WorkProfile, then: WorkProfile) -> tuple[Counts, Counts]:
    """Return the counts of each part now and before; overlapping ranges give equal counts."""
    after, before = dict[str, float](), dict[str, float]()
    ranges, ranges_before = _list_ranges(kind, now), _list_ranges(kind, then)
    for part in {**ranges, **ranges_before}:
        low, high = ranges.get(part, _NOTHING)
        low_before, high_before = ranges_before.get(part, _NOTHING)
        if low > high_before:
            after[part], before[part] = low, high_before
        elif high < low_before:
            after[part], before[part] = high, low_before
        else:
            after[part] = before[part] = max(low, low_before)
    return after, before


def _list_ranges(kind: str, profile: WorkProfile) -> Mapping[str, tuple[float, float]]:
    exact = {part: (count, count) for part, count in profile.counts.get(kind, {}).items()}
    return {**exact, **profile.dropped.get(kind, {})}


def _why_not_comparable(kind: WorkKind, now: WorkProfile, then: WorkProfile) -> str:
    if now.fingerprint != then.fingerprint:
        return "other data or another configuration"
    if now.batches != then.batches:
        return f"it was counted over {then.batches} batches, now over {now.batches}"
    if is_of_step(kind.name) and now.step_backend != then.step_backend:
        return f"another step backend ({then.step_backend or 'none'})"
    for profile, when in ((now, "now"), (then, "before")):
        if kind.name not in profile.counts:
            why = profile.not_counted.get(kind.name, "it has none of this kind")
            return f"it was not counted {when}: {why}"
        if kind.name in profile.dropped and not profile.counts[kind.name]:
            return f"it differs between two processes of the same code {when}"
    return ""


def _find_origins(rises: Mapping[str, float], now: WorkProfile, then: WorkProfile) -> list[str]:
    """Return the functions that cause a rise of calls, the one with the most calls below it first.

    A cause is called more often per call of its caller. The functions below a cause are called more
    often only because of it.
    """
    callees: dict[str, list[str]] = defaultdict(list)
    for function in rises:
        for caller in now.callers.get(function, {}):
            callees[caller].append(function)
    below = {
        function: _reach(function, callees)
        for function in rises
        if any(
            _exceeds(_per_call(function, caller, now), _per_call(function, caller, then))
            for caller in now.callers.get(function, {})
        )
    }
    found, explained = list[str](), set[str]()
    for function in sorted(below, key=lambda each: -sum(rises[part] for part in below[each])):
        if function not in explained:
            found.append(function)
            explained |= below[function]
    return found or sorted(rises, key=lambda part: -rises[part])


def _per_call(function: str, caller: str, profile: WorkProfile) -> float:
    calls = profile.callers.get(function, {}).get(caller, 0.0)
    return calls / (sum(profile.callers.get(caller, {}).values()) or 1.0)


def _reach(function: str, callees: Mapping[str, Sequence[str]]) -> set[str]:
    """Return a function and all functions that it calls, directly or not."""
    reached, waiting = {function}, [function]
    while waiting:
        found = set(callees.get(waiting.pop(), ())) - reached
        reached |= found
        waiting += found
    return reached


def _describe(
    kind: WorkKind,
    risen: Sequence[str],
    after: Counts,
    before: Counts,
    now: WorkProfile,
    then: WorkProfile,
) -> Iterator[str]:
    for part in risen[:_MAX_CAUSES]:
        more, less = (kind.format(counts.get(part, 0.0)) for counts in (after, before))
        sentence = kind.sentence.format(part=part, now=more, then=less)
        array, array_before = (profile.arrays.get(part, "none") for profile in (now, then))
        if kind.parts == "arrays" and array != array_before:
            sentence += f" ({array} instead of {array_before})"
        yield sentence
    if len(risen) > _MAX_CAUSES:
        yield f"and {len(risen) - _MAX_CAUSES} more"
