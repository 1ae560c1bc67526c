"""Assertions for performance tests. Their failure messages contain the figures."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from math import inf, isinf
from pathlib import Path
from typing import Any, Final

from netpipe.errors import (
    InconclusiveError,
    MisuseError,
    PipelineElementsError,
    PipelineOrderError,
    PipelineTooSlowError,
)
from netpipe.results.measurement import Interval, Measurement
from netpipe.results.units import format_metric, format_ratio_interval, format_seconds_interval
from netpipe.results.work_profile import WorkProfile
from netpipe.resuming.checking import ResumeReport
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import VerdictKind
from netpipe.verdict.quantities import EPSILON

_FOOTPRINT: Final = ("first_batch_s", "peak_pss_bytes", "growth_bytes_per_batch")


@dataclass(frozen=True)
class Limits:
    """The limits of a pipeline: a minimum for its headroom, a maximum for every other figure."""

    headroom: float = 1.0
    stall_fraction: float = EPSILON
    first_batch_s: float = inf
    peak_pss_bytes: float = inf
    growth_bytes_per_batch: float = inf

    def __post_init__(self) -> None:
        """Check the limits; raise a MisuseError if one is not a number or out of range."""
        for field in fields(self):
            value, end = getattr(self, field.name), 1.0 if field.name == "stall_fraction" else inf
            is_number = isinstance(value, int | float) and 0 <= value < end
            if not is_number and value != field.default:
                raise MisuseError(
                    f"the limit {field.name} must be a number from 0 to below {end:g}; found "
                    f"{value!r}"
                )


def expect_footprint(measurement: Measurement, limits: Limits) -> None:
    """Assert that the time of the first batch and the memory stay within their limits.

    The other assertions that take limits check this too, so that every limit is judged.

    Raises:
        PipelineTooSlowError: A figure, or its whole interval, exceeds its limit.
        InconclusiveError: A figure's interval contains the limit, or it was not measured.
    """
    __tracebackhide__ = True
    for name in _FOOTPRINT:
        write = partial(format_metric, name)
        limit, found = getattr(limits, name), getattr(measurement, name)
        if limit == inf:
            continue
        ends = (found.low, found.high) if isinstance(found, Interval) else (found, found)
        if found is None or isinf(ends[1]):
            raise InconclusiveError(f"inconclusive: {name} was not measured in enough rounds")
        value = " to ".join(dict.fromkeys(map(write, ends)))
        grows = measurement.growing_process
        where = f"; the memory of {grows} grows most" if grows and name != "first_batch_s" else ""
        message = f"{name} is {value}, at most {write(limit)} allowed{where}"
        if ends[0] > limit:
            raise PipelineTooSlowError(message)
        if ends[1] > limit:
            raise InconclusiveError(f"inconclusive: {message}")


def expect_loading_below_step(measurement: Measurement, limits: Limits) -> None:
    """Assert that loading a batch takes less time than the step on resident batches.

    Raises:
        PipelineTooSlowError: Loading takes longer.
        InconclusiveError: The interval contains the limit, or the measurement is not valid.
    """
    __tracebackhide__ = True
    headroom = measurement.headroom
    load = format_seconds_interval(measurement.load_s_per_batch)
    step = format_seconds_interval(measurement.step_s)
    message = (
        f"loading a batch takes {load}, the synthetic step {step}: headroom "
        f"{format_ratio_interval(headroom)}, at least {limits.headroom:.2f} required"
    )
    if headroom.high < limits.headroom:
        raise PipelineTooSlowError(f"loader too slow: {message}")
    if headroom.low < limits.headroom:
        raise InconclusiveError(f"inconclusive: loader too slow or not: {message}")
    if not (measurement.drained and measurement.within_epochs and measurement.batch_bytes):
        raise InconclusiveError(judge(measurement).message)
    expect_footprint(measurement, limits)


def expect_no_stall(measurement: Measurement, limits: Limits) -> None:
    """Assert that the real step takes no longer than the step on the loader's own batches.

    On a CPU device, which shares its cores with the loader, only the verdict counts.

    Raises:
        PipelineTooSlowError: Training waits; the message says why.
        InconclusiveError: The measurement does not decide it.
    """
    __tracebackhide__ = True
    verdict = judge(measurement)
    explanation = "\n".join((verdict.message, *verdict.evidence, f"next: {verdict.next}"))
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        raise InconclusiveError(explanation)
    if not verdict.passes(measurement):
        raise PipelineTooSlowError(explanation)
    if measurement.device.shares_host_cores:
        expect_footprint(measurement, limits)
        return
    stall = measurement.stall_fraction
    at_most = f"at most {limits.stall_fraction:.2f} allowed"
    asked = f"stall fraction {format_ratio_interval(stall)}, {at_most}"
    if stall.low > limits.stall_fraction:
        raise PipelineTooSlowError(f"training waits: {asked}\n{explanation}")
    if stall.median > limits.stall_fraction:
        raise InconclusiveError(f"inconclusive: {asked}\n{explanation}")
    expect_footprint(measurement, limits)


@dataclass(frozen=True)
class CountedWork:
    """The work of a loader and a step for a batch; `compare` fails the test if the work rose."""

    profile: WorkProfile
    compare: Callable[[], None]


def expect_no_more_work(work: CountedWork) -> None:
    """Assert that a batch takes no more calls, allocations, elements or bytes than before.

    The counts are compared with the baseline of work, with the ref of --netpipe-against, or with
    both. A failure names each kind of work that rose, and the function or stage that is the cause.
    """
    __tracebackhide__ = True
    work.compare()


def expect_exact_resume(report: ResumeReport) -> None:
    """Assert that a loader continues exactly from each of its saved states.

    Raises:
        PipelineElementsError: Different batches followed; the message has a line for each state.
        InconclusiveError: Runs without interruption differ too, or all batches are equal and the
            loader does not end.
    """
    __tracebackhide__ = True
    if report.differs:
        raise PipelineElementsError(f"the loader does not continue exactly:\n{report}")
    if not report.restored:
        raise InconclusiveError(str(report))


def expect_complete_epoch(
    shards: Iterable[Iterable[Any]],
    elements: int,
    key: Callable[[Any], Iterable[Hashable]] | None = None,
    before: Iterable[Any] = (),
) -> None:
    """Assert that an epoch's shards hold each element once, and equal numbers of batches.

    Args:
        shards: The loader of each shard, which ends with the epoch.
        elements: The number of distinct elements, at least 1.
        key: Returns the names of a batch's elements; by default, a digest of each row.
        before: The batches that came before the shards were restored, from any number of shards.

    Raises:
        PipelineElementsError: An element is missing or repeated, or a shard is longer than another.
        MisuseError: The elements of a batch cannot be told apart, or `elements` is below 1.
    """
    __tracebackhide__ = True
    if elements < 1:
        raise MisuseError(f"elements must be at least 1; found {elements}")
    if key is None:
        from netpipe.grain_access.batch_digests import digest_rows  # It imports jax.

        key = digest_rows
    name = partial(_list_names, key)
    batches, seen = list[int](), Counter(chain.from_iterable(map(name, before)))
    named = seen.total()
    for shard in shards:
        batches.append(0)
        for names in map(name, shard):
            batches[-1] += 1
            seen.update(names)
            named += len(names)
            if named > elements:  # A shard that repeats may be endless.
                break
    repeats = named - len(seen)
    if len(seen) != elements or repeats or len(set(batches)) != 1:
        raise PipelineElementsError(
            f"an epoch must have each of {elements} elements once, and equal numbers of batches on "
            f"all shards; found {len(seen)} and {repeats} repetitions, as {seen.most_common(1)}, "
            f"and {', '.join(map(str, batches)) or 'no'} batches"
        )


def expect_same_data(base: str, loader: str, batches: int = 256) -> None:
    """Assert that a loader's batches and epochs are those of another version, as `netpipe judge`.

    Both versions are read in child processes. Declared changes pass.

    Args:
        base: A git ref, such as "origin/main".
        loader: The target of the loader in the working tree, such as "input.py:batches".
        batches: The most batches to compare in each pass.

    Raises:
        PipelineElementsError: The data differ, are shuffled worse, or are lost or repeated.
        InconclusiveError: Something could not be compared.
        NetpipeError: A version cannot be read.
    """
    __tracebackhide__ = True
    from netpipe.jobs.targets import name_targets
    from netpipe.judge.judge import Change
    from netpipe.other_version import open_version
    from netpipe.worktrees import find_commit

    here = Path.cwd()
    with open_version(find_commit(here, base, "base"), here, "", lambda _: None) as version:
        checks = Change(version, here, name_targets(loader=loader), batches).check_data()
    lines = [
        f"{check.question} {check.outcome}: {check.reason}"
        for check in checks
        if check.status != "fine"
    ]
    if any(check.status == "worse" for check in checks):
        raise PipelineElementsError("\n".join((f"the data are not those of {base}", *lines)))
    if lines:
        raise InconclusiveError(
            "\n".join((f"inconclusive: not wholly compared with {base}", *lines))
        )


def expect_well_shuffled(
    epochs: Iterable[Iterable[Any]], elements: int, key: Callable[[Any], Iterable[int]]
) -> None:
    """Assert that the order of one or two epochs is not worse than that of a uniform shuffle.

    At most 1 in 1,000 uniform shuffles fails.

    Args:
        epochs: The batches of each epoch, or the first ones.
        elements: The number of elements of the source.
        key: Returns the position in the source of each element of a batch, from 0.

    Raises:
        PipelineElementsError: A figure of `netpipe.judge.shuffling.Shuffling` is worse.
        InconclusiveError: An epoch has fewer than 100 elements.
        MisuseError: A position is not a whole number, or not in the source.
    """
    __tracebackhide__ = True
    from netpipe.judge.shuffling import compare_with_uniform, describe_shuffle

    order = [[_as_positions(key(batch)) for batch in epoch] for epoch in epochs]
    found = describe_shuffle(order, elements)
    compared = compare_with_uniform(found)
    if compared.outcome == "NOT_COMPARED":
        raise InconclusiveError(f"inconclusive: {compared.reason}")
    if compared.worse:
        figures = (f"{name} is {found.figures[name].value:.3f}" for name in compared.worse)
        raise PipelineElementsError(f"shuffled worse than uniformly: {', '.join(figures)}")


def _as_positions(named: Iterable[Any]) -> Any:
    import numpy as np

    with suppress(TypeError):  # A batch of one element may be named by one number.
        named = [*named]
    positions = np.atleast_1d(np.array(named))
    if positions.size and (positions.ndim != 1 or positions.dtype.kind not in "iu"):
        found = f"{positions.dtype}{[*positions.shape]}"
        raise MisuseError(f"key must return a whole number for each element; found {found}")
    return positions.astype(int)


def _list_names(key: Callable[[Any], Iterable[Any]], batch: Any) -> list[Hashable]:
    try:
        # In some array libraries, equal numbers have different hashes.
        names = [name.tolist() if hasattr(name, "tolist") else name for name in key(batch)]
        hash(tuple(names))
    except TypeError as error:
        constraint = "key must return one hashable name for each row of a batch"
        raise MisuseError(f"{constraint}; found: {error}") from error
    return names


def expect_order(lint: Mapping[str, Any]) -> None:
    """Assert that a `netpipe.lint/1` document has no error, and a graph unless that is silenced."""
    __tracebackhide__ = True
    lines = []
    for finding in lint["findings"]:
        if finding["severity"] == "error":
            made_at = dict.fromkeys(lint["graph"][node]["made_at"] for node in finding["nodes"])
            lines.append(f"order: {finding['rule']}: {finding['message']}")
            notes = {**finding, "at": ", ".join(filter(None, made_at))}
            lines += [f"{word}: {notes[word]}" for word in ("at", "cost", "fix") if notes[word]]
        elif not lint["graph"]:  # the rule no-grain-graph
            way_out = f"{finding['fix']}, or silence {finding['rule']}"
            raise InconclusiveError(f"inconclusive: {finding['message']}. {way_out}")
    if lines:
        raise PipelineOrderError("\n".join(lines))
