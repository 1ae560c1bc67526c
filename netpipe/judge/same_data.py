"""Compare the batches of two versions: whether they are the same, and complete. Pure."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Final

from netpipe.judge.judgement import NOT_COMPARED, Check, Difference
from netpipe.judge.reading import FIRST, WORKERS, Pass, Reading

_WORST_FIRST: Final = (
    "DIFFERENT", "SAME_ELEMENTS", "REPEATED", "LOST", NOT_COMPARED, "IDENTICAL", "COMPLETE"
)  # fmt: skip


def _find_worst(checks: Sequence[Check]) -> Check:
    return min(checks, key=lambda check: _WORST_FIRST.index(check.outcome))


def compare_data(now: Reading, then: Reading) -> Check:
    """Say whether two versions give the same batches, in every pass.

    A version without a number of workers is compared with each number of the other version.
    `check_complete` compares the shards of a version whose base has none.
    """
    if not any(each.leaves for each in (*now.passes.values(), *then.passes.values())):
        return Check("data", NOT_COMPARED, "neither version gives a batch")
    checks = list[Check]()
    for name in {**now.passes, **then.passes}:
        substitute = FIRST if name.endswith(WORKERS) else name
        one, other = (
            reading.passes.get(name) or reading.passes.get(substitute) for reading in (now, then)
        )
        if one and other:
            checks.append(_compare_passes(name, one, other, len(then.epoch)))
        elif other:
            checks.append(Check("data", NOT_COMPARED, f"{name}: only the base has this pass"))
    worst = _find_worst(checks)
    if worst.outcome != "IDENTICAL":
        return worst
    return Check("data", "IDENTICAL", "; ".join(check.reason for check in checks))


def _compare_passes(name: str, now: Pass, then: Pass, epoch: int) -> Check:
    batch = _find_difference(now, then)
    if batch is None:
        end = ", to the end" if now.ended else ""
        return Check("data", "IDENTICAL", f"{name}: {len(now.leaves)} batches{end}")
    elements, before = now.elements, then.elements
    if not (now.ended or then.ended):
        # Compare whole epochs, because another order moves elements across any other boundary.
        length = min(len(elements), len(before))
        length -= length % epoch if 0 < epoch <= length else 0
        elements, before = elements[:length], before[:length]
    leaf, how, sentence = _describe_difference(now, then, batch)
    reason = f"{name}: batch {batch} first: {sentence}"
    missing, added, repeated = _count_changes(elements, before)
    if missing or added or repeated or not elements:
        reason += f"; of {len(before)} elements, {missing} are missing; {added} others came"
        reason += f", and {repeated} again" * (repeated > 0)
        return Check("data", "DIFFERENT", reason, Difference(batch, leaf, how, None))
    places = {row: iter(each) for row, each in list_places(before).items()}
    moved = [abs(place - next(places[row])) for place, row in enumerate(elements)]
    mean = sum(moved) / len(moved)
    reason += f"; all {len(moved)} elements came, {mean:.3g} places away on average"
    return Check("data", "SAME_ELEMENTS", reason, Difference(batch, leaf, how, mean))


def list_places(elements: Sequence[str]) -> dict[str, list[int]]:
    """Return the places of each element; equal elements have several."""
    places = defaultdict[str, list[int]](list)
    for place, row in enumerate(elements):
        places[row].append(place)
    return places


def _find_difference(now: Pass, then: Pass) -> int | None:
    """Return the number of the first batch that differs; None if there is none."""
    pairs = enumerate(zip(now.leaves, then.leaves, strict=False))
    differing = (number for number, (one, other) in pairs if one != other)
    is_alike = len(now.leaves) == len(then.leaves) and now.ended == then.ended
    return next(differing, None if is_alike else min(len(now.leaves), len(then.leaves)))


def _describe_difference(now: Pass, then: Pass, batch: int) -> tuple[str, str, str]:
    """Return the leaf that differs, how it differs, and a sentence about it."""
    if batch >= min(len(now.leaves), len(then.leaves)):
        is_now = len(now.leaves) == batch and now.ended
        return "", "end", f"only {'this version' if is_now else 'the base'} has ended"
    new, old = now.leaves[batch], then.leaves[batch]
    leaf, *others = (leaf for leaf in {**old, **new} if new.get(leaf) != old.get(leaf))
    (array, _), (array_before, _) = (each.get(leaf, ("missing", "")) for each in (new, old))
    also = f", and so do {', '.join(others)}" if others else ""
    if array == array_before:
        return leaf, "values", f"{leaf} differs in its values{also}"
    dtypes = {each.partition("[")[0] for each in (array, array_before)}
    how = "leaves" if "missing" in dtypes else "dtype" if len(dtypes) > 1 else "shape"
    return leaf, how, f"{leaf} differs: {array} instead of {array_before}{also}"


def _count_changes(elements: Sequence[str], before: Sequence[str]) -> tuple[int, int, int]:
    """Return how many elements are missing, new, and more often there than before."""
    now, then = Counter(elements), Counter(before)
    more = now - then
    added = sum(number for row, number in more.items() if row not in then)
    return (then - now).total(), added, more.total() - added


def check_complete(now: Reading, then: Reading) -> Check:
    """Say whether an epoch still has every element as often as before, over all shards too."""
    if not (now.epoch_pass and then.epoch_pass):
        whose = "only one version" if now.epoch_pass or then.epoch_pass else "neither version"
        way_out = "raise --batches, or give the loader's factory a parameter `epochs`"
        return Check("complete", NOT_COMPARED, f"{whose} ended an epoch: {way_out}")
    if not (now.epoch or then.epoch):
        return Check("complete", NOT_COMPARED, "an epoch has no elements in either version")
    checks = [_compare_elements("an epoch", now.epoch, then.epoch)]
    if shards := _join_shards(now):
        whole = _join_shards(then) or now.epoch
        checks.append(_compare_elements("an epoch of all shards", shards, whole))
    return _find_worst(checks)


def _join_shards(reading: Reading) -> list[str]:
    shards = (each for name, each in reading.passes.items() if name.startswith("shard "))
    return list(chain.from_iterable(shard.elements for shard in shards))


def _compare_elements(what: str, elements: Sequence[str], before: Sequence[str]) -> Check:
    missing, added, repeated = _count_changes(elements, before)
    outcome, reason = "COMPLETE", "each as often as before"
    if repeated:
        outcome, reason = "REPEATED", f"{repeated} come more often, and {missing} are missing"
    elif missing > added:
        outcome, reason = "LOST", f"{missing - added} are missing"
    elif added:
        outcome, reason = NOT_COMPARED, f"{added} have other contents, so they cannot be matched"
    numbers = f"{what} has {len(elements)} elements, {len(before)} before"
    return Check("complete", outcome, f"{numbers}: {reason}")
