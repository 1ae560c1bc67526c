"""Derives the effect of each intervention, and the limit of the loader. Arithmetic only."""

from collections.abc import Sequence
from statistics import fmean, median
from typing import Final

from netpipe.diagnosis.cost_model import Evidence, LoaderModel
from netpipe.diagnosis.diagnosis import (
    Bottleneck,
    Intervention,
    Reads,
    ReadsInFlight,
    Stage,
    Verification,
    clear_factor,
)
from netpipe.diagnosis.experiments.read_scaling import LATENCY, THROTTLING, ReadScaling
from netpipe.diagnosis.experiments.turns import Side, SideBlocks, divide, log_interval
from netpipe.diagnosis.what_if import Change, MeasuredLoader
from netpipe.grain_access.loader_variants import section_of
from netpipe.results.measurement import Interval
from netpipe.results.units import format_number, format_percent, format_seconds

_MIN_WORKING_FRACTION: Final = 0.5
_MIN_PROCESS_SPEEDUP: Final = 1.25
# Two processes that each have a core are twice as fast as one.
_FREE_CORE_SPEEDUP: Final = 2.0
# A second thread that gains less than this fraction of a second process's gain waits for the GIL.
_MIN_THREAD_GAIN_FRACTION: Final = 0.5
# Ratio of a batch's CPU time beside another process to that alone; above this, they share caches.
_MAX_CPU_INFLATION: Final = 1.3
_MIN_TINY_PAYLOAD_SPEEDUP: Final = 1.10
_MIN_READ_BYTES_PER_BATCH: Final = 4096

NOT_MADE: Final = "not made: "
"""Prefix of the reason why an intervention was not made."""


def list_interventions(evidence: Evidence) -> tuple[Intervention, ...]:
    """Return the effect of each intervention on the loader, the clearest first."""
    largest = evidence.times[0].name if evidence.times else "no stage"
    descriptions = {
        Side.TWO_THREADS: "two single-thread runs as threads of one process",
        Side.TWO_PROCESSES: "two single-thread runs, each in its own process",
        Side.WITHOUT_STAGE: f"the single-thread run in which {largest} returns its earlier results",
        Side.TINY_PAYLOAD: "workers that make every batch and send nothing",
    }
    in_turns = (
        (evidence.scaling, Side.SINGLE_THREAD, None),
        (evidence.variants, Side.UNMODIFIED, evidence.load_s),
    )
    effects = [
        _compare(turns, side, before, what, before_s)
        for turns, before, before_s in in_turns
        for side, what in descriptions.items()
        if turns.has(side) or side in turns.failures
    ]
    return tuple(sorted(effects, key=lambda effect: (-effect.clear_factor, effect.speedup is None)))


def _compare(
    turns: SideBlocks, name: str, before: str, what: str, before_s: Interval | None = None
) -> Intervention:
    """Return the effect of an intervention; `before_s` overrides the measured time of `before`."""
    if not turns.has(name, before):
        why = turns.why_missing(name, before)
        return Intervention(name, what, None, None, None, f"{NOT_MADE}{why}")
    before_s, speedup = before_s or turns.interval(before), turns.speedup(name, before)
    says = "no clear difference"
    if clear_factor(speedup):
        is_faster = speedup.median > 1
        factor = speedup.median if is_faster else 1 / speedup.median
        says = f"{factor:.2f} times {'as fast' if is_faster else 'slower'}"
    return Intervention(name, what, before_s, divide(before_s.median, speedup), speedup, says)


def verify(change: Change, turns: SideBlocks, load_s: Interval) -> Verification:
    """Return the effect of a change, measured in turns with the unmodified loader.

    The measured speedup is applied to `load_s`, so a machine that has slowed down does not matter.
    """
    speedup = turns.speedup(change.name, Side.UNMODIFIED)
    measured_s = divide(load_s.median, speedup)
    times = f"{format_seconds(measured_s.median)} instead of {format_seconds(load_s.median)}"
    clear = "" if clear_factor(speedup) else ", no clear difference"
    return Verification(
        change.name, change.kind, measured_s, load_s, f"{change.name}: {times}{clear}"
    )


def list_stages(
    evidence: Evidence, loader: MeasuredLoader, interventions: Sequence[Intervention]
) -> tuple[Stage, ...]:
    """Return the stages, the largest first, with times scaled to the single-thread run."""
    total_s = sum(cost.wall_s for cost, _ in loader.model.stages)
    without_s = {effect.name: effect.after_s_per_batch for effect in interventions}
    pairs = zip(evidence.times, loader.model.stages, strict=True)
    return tuple(
        Stage(
            name=time.name,
            node=None if time.node is None else time.node.id,
            function=time.function,
            made_at=time.made_at,
            section=section_of(time.node, evidence.graph),
            s_per_batch=cost.wall_s,
            cpu_s_per_batch=cost.cpu_s,
            fraction=cost.wall_s / total_s if total_s else 0.0,
            by="sampling" if time.single_thread_node is None else "timing",
            without_s_per_batch=without_s.get(Side.WITHOUT_STAGE) if index == 0 else None,
        )
        for index, (time, (cost, _)) in enumerate(pairs)
    )


def find_bottleneck(
    loader: MeasuredLoader, evidence: Evidence, interventions: Sequence[Intervention]
) -> Bottleneck:
    """Return the stage or transfer that takes the most loading time, and the limiting resource."""
    gains = [loader.gain_fraction(index) for index in range(len(evidence.times))]
    sending_fraction = _find_sending_fraction(evidence.variants)
    if sending_fraction > max(gains, default=0.0):
        senders = [str(node) for node in evidence.graph.of_kind("ProcessPrefetch", "DataLoader")]
        saved = format_percent(sending_fraction)
        why = f"sending nothing instead of the batch saves {saved} of the time"
        return Bottleneck(next(iter(senders), None), "process-transfer", sending_fraction, why)
    if not gains:
        return Bottleneck(None, "unknown", 0.0, "no stage was seen")
    # On a tie, `max` returns the first stage, which takes the most time.
    index = max(range(len(gains)), key=lambda index: round(gains[index], 3))
    stage, total_s = evidence.times[index], sum(time.s_per_batch for time in evidence.times)
    fraction = stage.s_per_batch / total_s if total_s else 0.0
    effect, clearest = "no change made a clear difference", find_clearest(interventions)
    if clearest:
        effect = f"the clearest effect is {clearest.effect}"
    unknown = ("unknown", f"no clear cause; {effect}")
    resource, why = _find_resource(loader, index, evidence) or unknown
    return Bottleneck(stage.name, resource, fraction, why)


def find_clearest(interventions: Sequence[Intervention]) -> Intervention | None:
    """Return the intervention with the clearest effect; None if none is clear."""
    return next((each for each in interventions if each.clear_factor), None)


def _find_sending_fraction(variants: SideBlocks) -> float:
    """Return the fraction of the load time that is spent on sending the payload; 0 if not clear."""
    if not variants.has(Side.TINY_PAYLOAD):
        return 0.0
    speedup = variants.speedup(Side.TINY_PAYLOAD, Side.UNMODIFIED)
    if speedup.median < _MIN_TINY_PAYLOAD_SPEEDUP or not clear_factor(speedup):
        return 0.0
    return 1 - 1 / speedup.median


def describe_reads(model: LoaderModel) -> Reads | None:
    """Return how reads scale; None if that was not measured."""
    if model.reads is None:
        return None
    read_s, read_bytes, reads_per_element = model.reads.count_source_reads()
    levels = []
    for in_flight, elements in model.reads.levels.items():
        element_s = fmean(element.element_s for element in elements)
        s_per_read = element_s / reads_per_element if read_s else element_s
        levels.append(ReadsInFlight(in_flight, s_per_read, in_flight / s_per_read))
    known_bytes = read_bytes if read_s else None
    return Reads(model.reads_in_flight, tuple(levels), known_bytes, model.reads.limit)


def _name_read_limit(scaling: ReadScaling, reads: Reads, computing: str) -> tuple[str, str]:
    """Return the resource that limits the loader's current reads, and why."""
    least, *_, most = reads.levels
    kind = "elements" if reads.bytes_per_read is None else "reads"
    why = (
        f"it {computing}; {least.in_flight} {kind} at the same time take "
        f"{format_seconds(least.s_per_read)} each, {most.in_flight} take "
        f"{format_seconds(most.s_per_read)}"
    )
    # A waiting map may be waiting for a lock or another service.
    if reads.bytes_per_read is None:
        return "waiting", f"{why}, and it has {reads.in_flight}"
    if scaling.more_reads_help(reads.in_flight):
        return LATENCY, f"{why}, and it has {reads.in_flight}"
    if not reads.limit:
        alike = "a bandwidth or a limit on requests; records of about one size cannot tell which"
        return "waiting", f"{why}: {alike}"
    if reads.limit == THROTTLING:
        why = f"{why}; larger records need fewer requests"
    return reads.limit, why


def _find_resource(
    loader: MeasuredLoader, index: int, evidence: Evidence
) -> tuple[str, str] | None:
    """Return the resource that limits a stage, and why; None if that is not clear."""
    working_fraction = loader.model.stages[index][0].working_fraction
    if working_fraction >= _MIN_WORKING_FRACTION:
        return _find_computing_resource(loader, evidence.scaling)
    alone = evidence.scaling.blocks[Side.SINGLE_THREAD]
    wall_over_cpu = log_interval([block.s_per_batch / block.cpu_s_per_batch for block in alone])
    if not clear_factor(wall_over_cpu):
        return None
    # The kernel does not report reads by workers; the single-thread run reads in this process.
    read = max(
        median(block.read_bytes_per_batch for block in blocks)
        for blocks in (alone, evidence.variants.blocks[Side.UNMODIFIED])
    )
    computing = f"computes {format_percent(working_fraction)} of its time"
    if read > _MIN_READ_BYTES_PER_BATCH:
        amount = f"{format_number(read / 1e6, 2)} MB"
        return "disk", f"it {computing} and {amount} a batch come from a disk"
    node = evidence.times[index].node
    reads = describe_reads(loader.model)
    if evidence.reads and reads and node and node.random_access:
        return _name_read_limit(evidence.reads, reads, computing)
    return "waiting", f"it {computing} and reads nothing from a local disk"


def _find_computing_resource(loader: MeasuredLoader, scaling: SideBlocks) -> tuple[str, str] | None:
    """Return the resource that limits a second thread or process, and why; None if not clear."""
    if not scaling.has(Side.TWO_THREADS, Side.TWO_PROCESSES):
        return None
    threads = scaling.speedup(Side.TWO_THREADS, Side.SINGLE_THREAD)
    processes = scaling.speedup(Side.TWO_PROCESSES, Side.SINGLE_THREAD)
    thread_gain, process_gain = threads.median - 1, processes.median - 1
    why = f"threads 1 to 2: {thread_gain:+.0%}, processes 1 to 2: {process_gain:+.0%}"
    if processes.median < _MIN_PROCESS_SPEEDUP:
        return _find_saturated_resource(scaling, processes, why)
    if not clear_factor(processes):
        return None
    if loader.model.workers and loader.model.limiting_resource() == "cores":
        return "cpu", f"{why}; its {loader.model.workers} workers use the cores up"
    if thread_gain < _MIN_THREAD_GAIN_FRACTION * process_gain:
        over_threads = scaling.speedup(Side.TWO_PROCESSES, Side.TWO_THREADS)
        return ("gil", why) if clear_factor(over_threads) else None
    return ("cpu", why) if clear_factor(threads) else None


def _find_saturated_resource(
    scaling: SideBlocks, processes: Interval, why: str
) -> tuple[str, str] | None:
    """Return the resource, memory or CPU, that keeps a second process from helping, and why."""
    pairs = zip(scaling.blocks[Side.TWO_PROCESSES], scaling.blocks[Side.SINGLE_THREAD], strict=True)
    inflation = log_interval(
        [beside.trainer_cpu_s_per_batch / alone.trainer_cpu_s_per_batch for beside, alone in pairs]
    )
    if inflation.median > _MAX_CPU_INFLATION and clear_factor(inflation):
        return "memory", (
            f"{why}; beside another process a batch takes {inflation.median:.2f} times the CPU "
            "time: they share caches and memory"
        )
    is_clear = processes.high < _FREE_CORE_SPEEDUP
    return ("cpu", f"{why}: no second core is free") if is_clear else None
