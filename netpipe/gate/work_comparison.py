"""Compare work profiles: which counts rose, and which function or stage is the cause. Pure.

Counts have no noise, so there are no intervals. A count has regressed if its total rose beyond the
bound. It has also regressed if one of its parts rose beyond the bound and the other parts did not
fall by as much; if they did, the same work was only renamed or moved to another place. If the total
fell beyond the bound, the count has improved, even if parts of it rose.

A part that is not reproducible has a range over the processes that counted it. It is left out if
the ranges overlap. Otherwise it counts only after many processes, because the ranges of two equal
random counts often lie apart.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final

from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.results.measurement import Interval
from netpipe.results.units import format_seconds
from netpipe.results.work_profile import (
    DATA_KINDS,
    KINDS,
    MAX_EPOCH_BATCHES,
    WARM_UP_BATCHES,
    WorkKind,
    WorkProfile,
    is_of_step,
    keep_reproducible,
)

BOUND: Final = 0.01
"""The largest rise of a count that passes, as a fraction."""

ENOUGH_PROCESSES: Final = 8
"""With this many processes of each version, a part that is not reproducible may decide.

With n processes of each version, the ranges of equal random counts lie apart in 2 of (2n)! / n!^2
cases: one in 3 for 2 processes, one in 6435 for 8.
"""

# All n processes of one version take a random branch, and none of the other, in at most 1 of 4^n
# cases.
_ALARM_PROCESSES: Final = 4
_CANNOT: Final = " cannot be compared: "
_MAX_CAUSES: Final = 5
_NOTHING: Final = (0.0, 0.0)
_WAY_OUT: Final = f"{ENOUGH_PROCESSES} processes of each version, side by side, would decide"
_CPU_RATIO: Final = 1.5
_MIN_CPU_RISE_S: Final = 0.01  # over all batches; children's CPU time has this resolution

Counts = Mapping[str, float]
"""Counts per batch, by part."""

Ranges = Mapping[str, tuple[float, float, float, float]]
"""The lowest and the highest count now, followed by those before, by part."""


def compare_work(now: WorkProfile, then: WorkProfile, baseline: str = "") -> tuple[Comparison, ...]:
    """Compare every kind of work that at least one of two profiles counts.

    `baseline` names the baseline that holds the earlier profile; "" if that is the profile of
    another version, counted side by side with this one.
    """
    counted = now.kinds | then.kinds
    # Every loader has contents, so those that neither version could compare are an outcome too.
    counted |= {"contents"} & {*now.not_counted, *then.not_counted}
    return tuple(
        (_compare_data if name in DATA_KINDS else _compare_kind)(kind, now, then, baseline)
        for name, kind in KINDS.items()
        if name in counted
    )


def compare_in_turns(
    now: WorkProfile,
    then: WorkProfile,
    count_now: Callable[..., WorkProfile],
    count_then: Callable[..., WorkProfile],
) -> tuple[WorkProfile, tuple[Comparison, ...]]:
    """Compare two versions; count both in more processes, in turns, while this may decide.

    Also returns this version's profile over all processes. Both functions take `hash_seeds`.
    """
    compared = compare_work(now, then)
    while any(found.is_open for found in compared) or _may_be_chance(compared, now, then):
        seeds = (str(now.processes),)
        now = keep_reproducible([now, count_now(hash_seeds=seeds)])
        then = keep_reproducible([then, count_then(hash_seeds=seeds)])
        compared = compare_work(now, then)
    return now, compared


def _may_be_chance(compared: Sequence[Comparison], now: WorkProfile, then: WorkProfile) -> bool:
    """Return whether a change may be a random branch of a loader without a seed."""
    is_random = "contents" in {*now.not_counted, *then.not_counted}
    changed = {Outcome.REGRESSED, Outcome.IMPROVED} & {found.outcome for found in compared}
    return is_random and bool(changed) and now.processes < _ALARM_PROCESSES


def _compare_kind(kind: WorkKind, now: WorkProfile, then: WorkProfile, baseline: str) -> Comparison:
    ranges, ranges_before = now.ranges(kind.name), then.ranges(kind.name)
    every = {
        part: (*ranges.get(part, _NOTHING), *ranges_before.get(part, _NOTHING))
        for part in {**ranges, **ranges_before}
    }
    overlapping, apart = _find_doubtful(kind, every, now, then, baseline)
    left_out = overlapping | apart
    outcome, after, before = _judge(kind, every, left_out)
    total, total_before = sum(after.values()), sum(before.values())
    more, less = kind.format(total), kind.format(total_before)
    change = ", as before" if more == less else f" instead of {less}"
    reasons = [f"{kind.name}: {more} per batch{change}"]
    if outcome is Outcome.REGRESSED:
        reasons += _describe(kind, after, before, now, then)
    if kind.name == "calls" and not baseline:
        reasons += _describe_cpu_rise(now, then)
    differ = f"processes of the same code differ in {_write_ranges(kind, every, left_out)}"
    reasons += [f"not compared: {differ}"] * bool(left_out)
    ratio = total / total_before if total_before else 1.0 if not total else inf
    shown = f"+{kind.format(total)}" if ratio == inf else ""
    if outcome is Outcome.REGRESSED and not _exceeds(kind, total, total_before):
        rise = max((after[part] - before[part] for part in after), default=0.0)
        shown = f"+{kind.format(rise)} in one part"
    found = Comparison(
        outcome, kind.name, total, total_before if kind.name in then.counts else None,
        "; ".join(reasons), worse=Interval(ratio, ratio, ratio, now.batches), bound=1 + BOUND,
        baseline=baseline, shown_change=shown,
    )  # fmt: skip
    unjudged = partial(replace, found, outcome=Outcome.NOT_COMPARED, worse=None, shown_change="")
    prefix = f"{kind.name}{_CANNOT}"
    if why_not := _why_not_comparable(kind, now, then):
        return unjudged(reason=prefix + why_not)
    if _judge(kind, every, overlapping)[0] is not outcome:
        reason = f"{prefix}{differ}; {_WAY_OUT}"
        return unjudged(outcome=Outcome.INCONCLUSIVE, reason=reason, is_open=not baseline)
    hidden = sum(max(every[part]) - min(every[part]) for part in left_out)
    passing = BOUND * sum(low for _, _, low, _ in every.values()) + kind.resolution
    if outcome is not Outcome.REGRESSED and hidden > max(passing, total_before - total):
        return unjudged(reason=prefix + differ)
    return found


def _compare_data(kind: WorkKind, now: WorkProfile, then: WorkProfile, baseline: str) -> Comparison:
    """Compare the batches themselves: any difference is a regression."""
    if why_not := _why_not_comparable(kind, now, then):
        reason = f"{kind.name}{_CANNOT}{why_not}"
        return Comparison(Outcome.NOT_COMPARED, kind.name, 0.0, None, reason, baseline=baseline)
    if kind.name == "contents":
        pairs = zip(now.contents, then.contents, strict=True)
        differing = [number for number, (new, old) in enumerate(pairs) if new != old]
        value, value_before, ratio = len(differing), 0, 1 + len(differing) / now.batches
        change = f"{len(differing)} of {now.batches} batches"
        first = f", batch {WARM_UP_BATCHES + differing[0]} first" if differing else ""
        reason = f"{change} differ from those before{first}"
    else:
        value, value_before = now.least_epoch_batches, then.least_epoch_batches
        ratio, change = max(value / value_before, value_before / value), ""
        reason = f"an epoch has {now.epoch}, before {then.epoch}"
    outcome = Outcome.PASS if value == value_before else Outcome.REGRESSED
    return Comparison(
        outcome, kind.name, value, value_before, f"{kind.name}: {reason}",
        worse=Interval(ratio, ratio, ratio, now.batches), bound=1.0, baseline=baseline,
        shown_change=change * bool(value),
    )  # fmt: skip


def _find_doubtful(
    kind: WorkKind, every: Ranges, now: WorkProfile, then: WorkProfile, baseline: str
) -> tuple[set[str], set[str]]:
    """Return the parts whose overlapping ranges may hide a change, and those apart by chance."""
    doubtful = {*now.dropped.get(kind.name, ()), *then.dropped.get(kind.name, ())}
    if not baseline and (_is_random(now) or _is_random(then)):
        doubtful = {*every}  # Two processes may agree on a random count by chance.
    overlapping, apart = set[str](), set[str]()
    for part in doubtful:
        low, high, low_before, high_before = every[part]
        if _exceeds(kind, high, low_before) or _exceeds(kind, high_before, low):
            (apart if low > high_before or high < low_before else overlapping).add(part)
    is_settled = not baseline and min(now.processes, then.processes) >= ENOUGH_PROCESSES
    return overlapping, set() if is_settled else apart


def _is_random(profile: WorkProfile) -> bool:
    """Return whether much work differs between processes, or may differ because of threads."""
    return profile.tasks_beside > 0 or any(
        sum(high - low for low, high in parts.values())
        > BOUND * sum(high for _, high in profile.ranges(kind).values())
        for kind, parts in profile.dropped.items()
    )


def _judge(
    kind: WorkKind, every: Ranges, left_out: Collection[str]
) -> tuple[Outcome, Counts, Counts]:
    """Return the outcome and the counts, now and before, of the parts that are not left out.

    The counts are the closest values of a part's two ranges; they are equal if the ranges overlap.
    """
    after, before = dict[str, float](), dict[str, float]()
    for part in (part for part in every if part not in left_out):
        low, high, low_before, high_before = every[part]
        before[part] = min(high_before, max(low, low_before))
        after[part] = max(low, min(high, before[part]))
    total, total_before = sum(after.values()), sum(before.values())
    rise = sum(max(0.0, after[part] - before[part]) for part in after)
    fall = rise - (total - total_before)
    has_risen = any(_exceeds(kind, after[part], before[part]) for part in after)
    if _exceeds(kind, total_before, total):
        return Outcome.IMPROVED, after, before
    is_more = _exceeds(kind, total, total_before) or (has_risen and _exceeds(kind, rise, fall))
    return Outcome.REGRESSED if is_more else Outcome.PASS, after, before


def _exceeds(kind: WorkKind, more: float, less: float) -> bool:
    return more > less * (1 + BOUND) + kind.resolution


def _write_ranges(kind: WorkKind, every: Ranges, parts: Collection[str]) -> str:
    """Format the largest parts: `queue.get (1 call to 3 calls, before 2 calls to 4 calls)`."""
    written = list[str]()
    for part in sorted(parts, key=lambda part: -every[part][1])[:_MAX_CAUSES]:
        low, high, low_before, high_before = map(kind.format, every[part])
        written.append(f"{part or 'it'} ({low} to {high}, before {low_before} to {high_before})")
    return ", ".join(written + _count_rest(parts))


def _why_not_comparable(kind: WorkKind, now: WorkProfile, then: WorkProfile) -> str:
    if now.fingerprint != then.fingerprint:
        return "other data or another configuration"
    is_epoch = kind.name == "epoch_batches"
    if now.batches != then.batches and not is_epoch:  # A short epoch limits how many are counted.
        return f"it was counted over {then.batches} batches, now over {now.batches}"
    if is_of_step(kind.name) and now.step_backend != then.step_backend:
        return f"another step backend ({then.step_backend or 'none'})"
    lengths = (now.least_epoch_batches, then.least_epoch_batches)
    if is_epoch and 0 < min(lengths) < MAX_EPOCH_BATCHES:
        return ""  # At least the shorter epoch is known.
    for profile, when in ((now, "now"), (then, "before")):
        if kind.name not in profile.kinds:
            why = profile.not_counted.get(kind.name, "it has none of this kind")
            return f"it was not counted {when}: {why}"
    return ""


def _find_origins(rises: Mapping[str, float], now: WorkProfile, then: WorkProfile) -> list[str]:
    """Return the functions that cause a rise in calls, by the rise below them, largest first.

    A cause is called more often per call of its caller. The functions below a cause are called more
    often only because the cause is.
    """
    callees: dict[str, list[str]] = defaultdict(list)
    for function in rises:
        for caller in now.callers.get(function, {}):
            callees[caller].append(function)
    below = {
        function: _reach(function, callees)
        for function in rises
        if any(
            _exceeds(KINDS["calls"], *(_per_call(function, caller, each) for each in (now, then)))
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
    """Return a function and all functions that it calls, directly or indirectly."""
    reached, waiting = {function}, [function]
    while waiting:
        found = set(callees.get(waiting.pop(), ())) - reached
        reached |= found
        waiting += found
    return reached


def _describe_cpu_rise(now: WorkProfile, then: WorkProfile) -> Iterator[str]:
    more, less = now.cpu_s_per_batch, then.cpu_s_per_batch
    if less and more >= _CPU_RATIO * less and (more - less) * now.batches >= _MIN_CPU_RISE_S:
        times = f"{format_seconds(more)} of CPU time instead of {format_seconds(less)}"
        yield f"but a batch took {times}: compare times too, with `netpipe ab`"


def _describe(
    kind: WorkKind, after: Counts, before: Counts, now: WorkProfile, then: WorkProfile
) -> Iterator[str]:
    """Yield a sentence for each part that rose, the most important first."""
    rises = {
        part: after[part] - before[part]
        for part in after
        if _exceeds(kind, after[part], before[part])
    }
    risen = sorted(rises, key=lambda part: -rises[part])
    if kind.name == "calls":
        risen = _find_origins(rises, now, then)
    for part in risen[:_MAX_CAUSES]:
        more, less = kind.format(after[part]), kind.format(before[part])
        sentence = kind.sentence.format(part=part, now=more, then=less)
        array, array_before = (profile.arrays.get(part, "none") for profile in (now, then))
        if kind.parts == "arrays" and array != array_before:
            sentence += f" ({array} instead of {array_before})"
        yield sentence
    yield from _count_rest(risen)


def _count_rest(parts: Collection[str]) -> list[str]:
    return [f"and {len(parts) - _MAX_CAUSES} more"] * (len(parts) > _MAX_CAUSES)
