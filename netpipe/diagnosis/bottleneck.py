"""The stage that limits a loader, and the resource that binds it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Final

from netpipe.diagnosis.blocks import Block
from netpipe.diagnosis.cost_model import with_stage_times
from netpipe.diagnosis.diagnosis import Bottleneck, Intervention, clear_factor
from netpipe.diagnosis.interventions import SINGLE_THREAD, TWO_PROCESSES, TWO_THREADS
from netpipe.diagnosis.stage_times import StageTime
from netpipe.diagnosis.turns import SideBlocks, log_interval
from netpipe.diagnosis.what_if import MeasuredLoader
from netpipe.results.measurement import Interval
from netpipe.results.units import format_percent

_MIN_WORKING_FRACTION: Final = 0.5
_MIN_PROCESS_SPEEDUP: Final = 1.25
_FREE_CORE_SPEEDUP: Final = 2.0
# Of the gain of a second process, which a second thread must reach for threads to be of use.
_MIN_THREAD_GAIN: Final = 0.5
# Of the CPU time of a batch beside another process to that alone.
_MAX_CPU_INFLATION: Final = 1.3
_MIN_TINY_SPEEDUP: Final = 1.10
_MIN_READ_BYTES_PER_BATCH: Final = 4096


@dataclass(frozen=True)
class Evidence:
    """The measurements that the resource is concluded from.

    Attributes:
        scaling: The result of `SingleThreadRun.measure_scaling`.
        tiny: The speedup with a tiny payload; None if not measured.
        unmodified: Blocks of the unmodified loader.
        sender: The name of the node whose workers send; "" without workers.
        interventions: All that were made, the clearest first.
    """

    scaling: SideBlocks
    tiny: Interval | None
    unmodified: Sequence[Block]
    sender: str = ""
    interventions: Sequence[Intervention] = ()


def find_bottleneck(
    loader: MeasuredLoader, times: Sequence[StageTime], evidence: Evidence
) -> Bottleneck:
    """Return what limits a loader: the stage, or the payload, that costs it the most time."""
    gains = [
        1 - loader.ratio(partial(with_stage_times, place=place, factor=0.0))
        for place in range(len(times))
    ]
    sending_fraction = _sending_fraction(evidence.tiny)
    if sending_fraction > max(gains, default=0.0):
        saved = format_percent(sending_fraction)
        why = f"sending nothing instead of the batch saves {saved} of the time"
        return Bottleneck(evidence.sender or None, "process-transfer", sending_fraction, why)
    if not times:
        return Bottleneck(None, "unknown", 0.0, "no stage was seen")
    place = max(range(len(times)), key=lambda place: (round(gains[place], 3), -place))
    stage, total_s = times[place], sum(time.s_per_batch for time in times)
    resource, why = _find_resource(loader, place, evidence)
    return Bottleneck(stage.name, resource, stage.s_per_batch / total_s if total_s else 0.0, why)


def _sending_fraction(tiny: Interval | None) -> float:
    """Return the share of the time that sending clearly takes."""
    if tiny is None or tiny.median < _MIN_TINY_SPEEDUP or not clear_factor(tiny):
        return 0.0
    return 1 - 1 / tiny.median


def _find_resource(loader: MeasuredLoader, place: int, evidence: Evidence) -> tuple[str, str]:
    working = loader.model.stages[place][0].working_fraction
    scaling = evidence.scaling
    alone = scaling.blocks(SINGLE_THREAD) if scaling.rounds else []
    if working >= _MIN_WORKING_FRACTION:
        named = _computing_resource(loader, scaling)
    elif clear_factor(_wall_over_cpu(alone or evidence.unmodified)):
        named = _waiting_resource(working, alone, evidence.unmodified)
    else:
        named = None
    return named or ("unknown", _describe_unclear(evidence.interventions))


def _wall_over_cpu(blocks: Sequence[Block]) -> Interval:
    return log_interval([block.s_per_batch / block.cpu_s_per_batch for block in blocks])


def _describe_unclear(interventions: Sequence[Intervention]) -> str:
    clear = next((one for one in interventions if one.clear_factor), None)
    effect = (
        f"the clearest effect is {clear.effect}" if clear else "no change made a clear difference"
    )
    return f"no clear cause; {effect}"


def _waiting_resource(
    working: float, alone: Sequence[Block], unmodified: Sequence[Block]
) -> tuple[str, str]:
    # The kernel counts for this process only: workers read, but the single-thread run does it here.
    read = max(
        median(block.read_bytes_per_batch for block in blocks)
        for blocks in (alone, unmodified)
        if blocks
    )
    idle = f"computes {format_percent(working)} of its time"
    if read > _MIN_READ_BYTES_PER_BATCH:
        return "disk", f"it {idle} and {read / 1e6:.2g} MB a batch come from a disk"
    return "waiting", f"it {idle} and reads nothing from a local disk"


def _computing_resource(loader: MeasuredLoader, scaling: SideBlocks) -> tuple[str, str] | None:
    """Return the resource that a second thread and a second process clearly show, if any."""
    if not (scaling.has(TWO_THREADS) and scaling.has(TWO_PROCESSES)):
        return None
    threads, processes = (
        scaling.speedup(side, SINGLE_THREAD) for side in (TWO_THREADS, TWO_PROCESSES)
    )
    why = describe_scaling(scaling)
    if processes.median < _MIN_PROCESS_SPEEDUP:
        return _saturated_resource(scaling, processes, why)
    if not clear_factor(processes):
        return None
    if loader.model.workers and loader.model.limiting_resource() == "cores":
        return "cpu", f"{why}; its {loader.model.workers} workers use the cores up"
    if threads.median - 1 < _MIN_THREAD_GAIN * (processes.median - 1):
        is_clear = clear_factor(scaling.speedup(TWO_PROCESSES, TWO_THREADS)) > 0
        return ("gil", why) if is_clear else None
    return ("cpu", why) if clear_factor(threads) else None


def _saturated_resource(
    scaling: SideBlocks, processes: Interval, why: str
) -> tuple[str, str] | None:
    pairs = zip(scaling.blocks(TWO_PROCESSES), scaling.blocks(SINGLE_THREAD), strict=True)
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


def describe_scaling(scaling: SideBlocks) -> str:
    """Return the gains of a second thread and process: "threads 1 to 2: +4%, ..."."""
    return ", ".join(
        f"{name} 1 to 2: {scaling.speedup(side, SINGLE_THREAD).median - 1:+.0%}"
        for side, name in ((TWO_THREADS, "threads"), (TWO_PROCESSES, "processes"))
        if scaling.has(side)
    )
