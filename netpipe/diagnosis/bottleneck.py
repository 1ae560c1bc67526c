"""Which stage limits a loader, and which resource binds it: pure, over what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Final

from netpipe.diagnosis.blocks import Block
from netpipe.diagnosis.cost_model import with_stage_times
from netpipe.diagnosis.diagnosis import Bottleneck, Intervention, clear_factor
from netpipe.diagnosis.prediction import Known
from netpipe.diagnosis.stage_times import StageTime
from netpipe.diagnosis.thread_scaling import LANE, TWO_PROCESSES, TWO_THREADS
from netpipe.diagnosis.turns import SideBlocks, log_interval
from netpipe.results.measurement import Interval
from netpipe.results.units import format_percent

_WAITS_BELOW: Final = 0.5  # of its time that a stage computes
_SCALES: Final = 1.25  # two processes
_FREE_CORE: Final = 2.0  # two processes, where a core is free and not slowed
_THREADS_SHARE: Final = 0.5  # of what the second process adds, for threads to be of use
_INFLATED: Final = 1.3  # CPU time of a batch beside another process over that alone
_SENT: Final = 1.10  # batches a second without a payload, for it to be worth a thought
_READ_BYTES: Final = 4096  # a batch


@dataclass(frozen=True)
class Evidence:
    """What the resource is told from.

    Attributes:
        lanes: Of `lanes_in_turns`.
        tiny: Batches a second with a payload of nothing over those as it is; None if not measured.
        as_it_is: Blocks of the loader as it is.
        sender: The name of the node whose workers send; "" without workers.
        interventions: All that were tried, the clearest first.
    """

    lanes: SideBlocks
    tiny: Interval | None
    as_it_is: Sequence[Block]
    sender: str = ""
    interventions: Sequence[Intervention] = ()


def bottleneck(known: Known, times: Sequence[StageTime], evidence: Evidence) -> Bottleneck:
    """Return what limits a loader.

    The stage is the one without which it would be fastest; the payload that workers send counts
    as one.

    Args:
        known: The loader as it is.
        times: Its stages, in the order of `known.parts.stages`.
        evidence: Of the resource.
    """
    gains = [
        1 - known.ratio(partial(with_stage_times, place=place, factor=0.0))
        for place in range(len(times))
    ]
    sent = _sent_fraction(evidence.tiny)
    if sent > max(gains, default=0.0):
        why = f"sending nothing instead of the batch saves {format_percent(sent)} of the time"
        return Bottleneck(evidence.sender or None, "process-transfer", sent, why)
    if not times:
        return Bottleneck(None, "unknown", 0.0, "no stage could be told apart")
    place = max(range(len(times)), key=lambda one: (round(gains[one], 3), -one))
    stage = times[place]
    resource, why = _resource(known, place, evidence)
    return Bottleneck(stage.name, resource, _share(stage, times), why)


def _sent_fraction(tiny: Interval | None) -> float:
    """Return the share of the time that the payload takes, where that is beyond doubt."""
    if tiny is None or tiny.median < _SENT or not clear_factor(tiny):
        return 0.0
    return 1 - 1 / tiny.median


def _share(stage: StageTime, times: Sequence[StageTime]) -> float:
    total_s = sum(one.s_per_batch for one in times)
    return stage.s_per_batch / total_s if total_s else 0.0


def _resource(known: Known, place: int, evidence: Evidence) -> tuple[str, str]:
    work, _ = known.parts.stages[place]
    working = min(1.0, work.cpu_s / work.wall_s) if work.wall_s else 1.0
    clearly_waits = clear_factor(_wall_over_cpu(evidence)) > 0
    if working < _WAITS_BELOW and clearly_waits:
        return _waits(working, evidence)
    named = None if working < _WAITS_BELOW else _computes(known, evidence.lanes)
    return named or ("unknown", no_clear_cause(evidence.interventions))


def no_clear_cause(interventions: Sequence[Intervention]) -> str:
    """Say that no resource can be named, and which effect is the clearest."""
    clear = next((one for one in interventions if one.clear_factor), None)
    led = f"the clearest effect is {clear.effect}" if clear else "no change made a clear difference"
    return f"no clear cause; {led}"


def _wall_over_cpu(evidence: Evidence) -> Interval:
    blocks = evidence.lanes.blocks(LANE) if evidence.lanes.rounds else evidence.as_it_is
    return log_interval([one.s_per_batch / one.cpu_s_per_batch for one in blocks])


def _waits(working: float, evidence: Evidence) -> tuple[str, str]:
    idle = f"computes {format_percent(working)} of its time"
    lane = evidence.lanes.blocks(LANE) if evidence.lanes.rounds else []
    # Workers read in processes of their own, where it is not seen; a lane does it in this one.
    read = max(_read(evidence.as_it_is), _read(lane))
    if read > _READ_BYTES:
        return "disk", f"it {idle} and {read / 1e6:.2g} MB a batch come from a disk"
    return "waiting", f"it {idle} and reads nothing from a local disk"


def _read(blocks: Sequence[Block]) -> float:
    return median(one.read_bytes_per_batch for one in blocks) if blocks else 0.0


def _computes(known: Known, lanes: SideBlocks) -> tuple[str, str] | None:
    """Return the resource that the lanes clearly show, if any."""
    if not (lanes.has(TWO_THREADS) and lanes.has(TWO_PROCESSES)):
        return None
    threads, processes = (lanes.speedup(side, LANE) for side in (TWO_THREADS, TWO_PROCESSES))
    why = scaling(lanes)
    if processes.median < _SCALES:
        return _does_not_scale(lanes, why)
    if not clear_factor(processes):
        return None
    if known.parts.workers and known.parts.binding() == "cores":
        return "cpu", f"{why}; its {known.parts.workers} workers use the cores up"
    if threads.median - 1 < _THREADS_SHARE * (processes.median - 1):
        is_clear = clear_factor(lanes.speedup(TWO_PROCESSES, TWO_THREADS)) > 0
        return ("gil", why) if is_clear else None
    return ("cpu", why) if clear_factor(threads) else None


def _does_not_scale(lanes: SideBlocks, why: str) -> tuple[str, str] | None:
    pairs = zip(lanes.blocks(TWO_PROCESSES), lanes.blocks(LANE), strict=True)
    inflation = log_interval(
        [beside.trainer_cpu_s_per_batch / alone.trainer_cpu_s_per_batch for beside, alone in pairs]
    )
    if inflation.median > _INFLATED and clear_factor(inflation):
        return "memory", (
            f"{why}; beside another process a batch takes {inflation.median:.2f} times the CPU "
            "time: they share caches and memory"
        )
    # A core of its own would double the rate.
    is_clear = lanes.speedup(TWO_PROCESSES, LANE).high < _FREE_CORE
    return ("cpu", f"{why}: no second core is free") if is_clear else None


def scaling(lanes: SideBlocks) -> str:
    """Say what a second thread and a second process gave: "threads 1 to 2: +4%, ..."."""
    told = []
    for side, name in ((TWO_THREADS, "threads"), (TWO_PROCESSES, "processes")):
        if lanes.has(side):
            told.append(f"{name} 1 to 2: {lanes.speedup(side, LANE).median - 1:+.0%}")
    return ", ".join(told)
