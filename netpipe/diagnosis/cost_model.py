"""A model of what limits a loader, built from measured times. Arithmetic only.

A batch takes time of the workers, of the training process, and of the cores that both share. The
slowest of them bounds the rate, as in any closed pipeline (Denning and Buzen, The Operational
Analysis of Queueing Network Models, 1978). Processes that compute at the same time slow each other
by the contention term of the Universal Scalability Law (Gunther, Guerrilla Capacity Planning,
2007).
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from operator import add, itemgetter
from statistics import median
from typing import Final

from netpipe.diagnosis.experiments.pulling_threads import Block
from netpipe.diagnosis.experiments.read_scaling import SATURATED_GROWTH, ReadScaling
from netpipe.diagnosis.experiments.stage_times import StageTime
from netpipe.diagnosis.experiments.turns import Side, SideBlocks
from netpipe.grain_access.loader_variants import count_read_buffer, count_threads, count_workers
from netpipe.grain_access.nodes import Graph
from netpipe.results.measurement import Interval

_MIN_S_PER_BATCH: Final = 1e-7
_MIN_WORKING_FRACTION: Final = 0.2


@dataclass(frozen=True)
class Evidence:
    """The measurements of a loader, from which all conclusions are drawn.

    Attributes:
        is_rebuilt: Whether the single-thread run has no workers and no threads; otherwise it is
            the unmodified loader.
        times: The stages, the largest first.
        scaling: The single-thread run in turns with its variants.
        variants: The unmodified loader in turns with its variants.
        load_s: Seconds per batch of the unmodified loader, as every report states it.
        reads: How its reads scale; None if they do not wait, or were not measured.
    """

    graph: Graph
    cores: int
    is_rebuilt: bool
    times: Sequence[StageTime]
    scaling: SideBlocks
    variants: SideBlocks
    load_s: Interval
    reads: ReadScaling | None = None


@dataclass(frozen=True)
class StageCost:
    """Seconds per batch of one or several stages, in one thread.

    Reader threads can share `threaded_wall_s` of the wall time, including `waiting_s` without CPU
    use.
    """

    wall_s: float = 0.0
    cpu_s: float = 0.0
    threaded_wall_s: float = 0.0
    waiting_s: float = 0.0

    def __add__(self, other: "StageCost") -> "StageCost":
        return StageCost(*map(add, astuple(self), astuple(other)))

    def __mul__(self, factor: float) -> "StageCost":
        return StageCost(*(seconds * factor for seconds in astuple(self)))

    def with_waiting(self, factor: float, cpu_factor: float = 1.0) -> "StageCost":
        """Return the cost with scaled waiting, and with scaled CPU time in reader threads."""
        cpu_less_s = (self.threaded_wall_s - self.waiting_s) * (1 - cpu_factor)
        less_s = self.waiting_s * (1 - factor)
        return StageCost(
            self.wall_s - less_s - cpu_less_s,
            self.cpu_s - cpu_less_s,
            self.threaded_wall_s - less_s - cpu_less_s,
            self.waiting_s - less_s,
        )

    @property
    def working_fraction(self) -> float:
        """Fraction of the wall time that is computing; near 0: it waits."""
        return min(1.0, self.cpu_s / self.wall_s) if self.wall_s else 1.0


@dataclass(frozen=True)
class LoaderModel:
    """A loader as the model sees it; all times are seconds per batch.

    Attributes:
        stages: The cost of each stage, and whether it moves to the workers if there are any.
        send_s: CPU seconds of a worker for sending a batch, without its payload.
        receive_s: CPU seconds of the training process for receiving it, without its payload;
            without workers, the CPU seconds that reader threads cost besides the stages.
        gil_fraction: Fraction of the CPU time under Python's lock; 1: threads do not help.
        contention: Fraction by which each further computing process slows the others.
        worker_overhead_s: Wall seconds of a worker that no stage accounts for.
        reads: How the storage answers more reads in flight; None: as fast as single ones.
        read_buffer: Elements that the reader threads of a process read ahead.
    """

    stages: tuple[tuple[StageCost, bool], ...]
    workers: int
    threads: int
    cores: int
    send_s: float = 0.0
    receive_s: float = 0.0
    payload_send_s: float = 0.0
    payload_receive_s: float = 0.0
    gil_fraction: float = 1.0
    contention: float = 0.0
    worker_overhead_s: float = 0.0
    trainer_overhead_s: float = 0.0
    reads: ReadScaling | None = None
    read_buffer: int = 0

    @property
    def reads_in_flight(self) -> int:
        """Reads at the same time, in all processes."""
        return max(1, self.workers) * max(1, self.threads)

    @property
    def worker_cost(self) -> StageCost:
        """The work of a worker for a batch."""
        send_s = self.send_s + self.payload_send_s
        return _sum_costs(self.stages, in_workers=True) + StageCost(send_s, send_s)

    @property
    def trainer_cost(self) -> StageCost:
        """The work of the training process for a batch."""
        staying = _sum_costs(self.stages, in_workers=False)
        if self.workers:
            receive_s = self.receive_s + self.payload_receive_s
            return staying + StageCost(receive_s, receive_s)
        threads = StageCost(self.receive_s, self.receive_s, self.receive_s if self.threads else 0.0)
        return staying + _sum_costs(self.stages, in_workers=True) + threads

    def bounds_s(self) -> dict[str, float]:
        """Return the least seconds per batch that each resource allows, by its name."""
        bounds = {"trainer": self._process_s(self.trainer_cost) + self.trainer_overhead_s}
        cpu_s = self.trainer_cost.cpu_s
        if self.workers:
            cost = self.worker_cost
            alone_s = self._process_s(cost) + self.worker_overhead_s
            bounds["workers"] = alone_s * self._slowdown(cost) / self.workers
            cpu_s += cost.cpu_s
        bounds["cores"] = cpu_s / self.cores
        return bounds

    def s_per_batch(self) -> float:
        """Return the seconds per batch that all resources together allow."""
        return max(_MIN_S_PER_BATCH, *self.bounds_s().values())

    def limiting_resource(self) -> str:
        """Return the name of the resource that bounds the rate."""
        return max(self.bounds_s().items(), key=itemgetter(1))[0]

    def _process_s(self, cost: StageCost) -> float:
        """Return the seconds in one process, whose threads share the work and Python's lock."""
        in_order = 1.0
        if self.reads:
            in_flight = self.reads_in_flight
            growth, cpu_factor = self.reads.growth_at(in_flight), 1.0
            if self.threads:
                cpu_factor = self.reads.cpu_factor_at(in_flight)
            cost = cost.with_waiting(growth, cpu_factor)
            in_order = self.reads.ordering_factor(max(1, self.threads), self.read_buffer, in_flight)
        if not self.threads:
            return cost.wall_s
        return max(
            in_order * cost.threaded_wall_s / self.threads,
            cost.wall_s - cost.threaded_wall_s,
            self.gil_fraction * cost.cpu_s,
        )

    def _slowdown(self, cost: StageCost) -> float:
        """Return the factor by which workers that compute at the same time slow each other."""
        if not cost.wall_s:
            return 1.0
        others = min(self.workers, self.cores) - 1
        return 1 + self.contention * others * cost.working_fraction

    def calibrated_to(self, measured_s: float) -> "LoaderModel":
        """Return the model with the overhead that makes it as slow as the measured loader.

        That overhead, such as late wake-ups, stays when a stage is removed. None is added if the
        cores are the limit, because other programs may have used them too, nor if reads wait,
        because more reads in flight share the cause. A saturated storage is slowed instead.
        """
        if self.reads:
            is_saturated = self.reads.growth_at(self.reads_in_flight) >= SATURATED_GROWTH
            factor = measured_s / self.s_per_batch()
            return replace(self, reads=self.reads.slowed(factor)) if is_saturated else self
        missing_s, limit = measured_s - self.s_per_batch(), self.limiting_resource()
        if missing_s <= 0 or limit == "cores":
            return self
        if limit == "trainer":
            return replace(self, trainer_overhead_s=missing_s)
        overhead_s = missing_s * self.workers / self._slowdown(self.worker_cost)
        return replace(self, worker_overhead_s=overhead_s)


def _sum_costs(stages: Sequence[tuple[StageCost, bool]], *, in_workers: bool) -> StageCost:
    return sum((cost for cost, in_worker in stages if in_worker is in_workers), StageCost())


def with_batch_size(model: LoaderModel, factor: float) -> LoaderModel:
    """Return the loader with `factor` times the batch size."""
    resized = replace(
        model,
        stages=tuple((cost * factor, in_worker) for cost, in_worker in model.stages),
        worker_overhead_s=model.worker_overhead_s * factor,
        trainer_overhead_s=model.trainer_overhead_s * factor,
    )
    return with_payload(resized, factor)


def with_stage_times(model: LoaderModel, index: int, factor: float) -> LoaderModel:
    """Return the loader with one stage that takes `factor` times as long."""
    stages = list(model.stages)
    cost, in_worker = stages[index]
    stages[index] = (cost * factor, in_worker)
    return replace(model, stages=tuple(stages))


def with_payload(model: LoaderModel, factor: float) -> LoaderModel:
    """Return the loader whose workers send `factor` times the bytes."""
    return replace(
        model,
        payload_send_s=model.payload_send_s * factor,
        payload_receive_s=model.payload_receive_s * factor,
    )


def build_model(evidence: Evidence, side: str = Side.UNMODIFIED) -> LoaderModel:
    """Return the model of the unmodified loader, or of the loader with one worker."""
    stages = _scale_stages(evidence)
    in_workers = _sum_costs(stages, in_workers=True)
    in_trainer = _sum_costs(stages, in_workers=False)
    total = in_workers + in_trainer
    model = LoaderModel(
        stages,
        workers=1 if side == Side.ONE_WORKER else count_workers(evidence.graph),
        threads=count_threads(evidence.graph),
        reads=evidence.reads,
        read_buffer=count_read_buffer(evidence.graph),
        cores=evidence.cores,
        # Threads that wait say nothing about the lock: assume that Python code computes.
        gil_fraction=1.0 if evidence.reads else _estimate_gil_fraction(evidence.scaling),
        contention=_estimate_contention(evidence.scaling, total.working_fraction),
    )
    trainer_s, workers_s = _median_cpu_s(evidence.variants.blocks[side])
    if not model.workers:
        receive_s = max(0.0, trainer_s - total.cpu_s) if model.threads else 0.0
        return replace(model, receive_s=receive_s)
    tiny = evidence.variants.blocks.get(Side.TINY_PAYLOAD)
    bare_trainer_s, bare_workers_s = _median_cpu_s(tiny) if tiny else (trainer_s, workers_s)
    return replace(
        model,
        send_s=max(0.0, bare_workers_s - in_workers.cpu_s),
        receive_s=max(0.0, bare_trainer_s - in_trainer.cpu_s),
        payload_send_s=max(0.0, workers_s - bare_workers_s),
        payload_receive_s=max(0.0, trainer_s - bare_trainer_s),
    )


def _estimate_gil_fraction(scaling: SideBlocks) -> float:
    if not scaling.has(Side.TWO_THREADS):
        return 1.0
    # Two threads share one core while one of them holds the lock.
    return _clip(2 / scaling.speedup(Side.TWO_THREADS, Side.SINGLE_THREAD).median - 1)


def _estimate_contention(scaling: SideBlocks, working_fraction: float) -> float:
    if not scaling.has(Side.TWO_PROCESSES):
        return 0.0
    slowdown = 2 / scaling.speedup(Side.TWO_PROCESSES, Side.SINGLE_THREAD).median - 1
    # A process slows another one only while it computes.
    return _clip(slowdown / max(_MIN_WORKING_FRACTION, working_fraction))


def _clip(fraction: float) -> float:
    return min(1.0, max(0.0, fraction))


def _median_cpu_s(blocks: Sequence[Block]) -> tuple[float, float]:
    """Return the CPU seconds per batch of the training process and of the workers."""
    return (
        median(block.trainer_cpu_s_per_batch for block in blocks),
        median(block.workers_cpu_s_per_batch for block in blocks),
    )


def _scale_stages(evidence: Evidence) -> tuple[tuple[StageCost, bool], ...]:
    """Scale the stages to add up to the single-thread run, which was not instrumented."""
    times, blocks = evidence.times, evidence.scaling.blocks[Side.SINGLE_THREAD]
    wall_s = sum(time.s_per_batch for time in times)
    cpu_s = sum(time.cpu_s_per_batch for time in times)
    wall_scale = median(block.s_per_batch for block in blocks) / wall_s if wall_s else 1.0
    cpu_scale = _median_cpu_s(blocks)[0] / cpu_s if cpu_s else 1.0
    stages = []
    for time in times:
        stage_s, node = time.s_per_batch * wall_scale, time.node
        stage_cpu_s = time.cpu_s_per_batch * cpu_scale
        cost = StageCost(stage_s, stage_cpu_s)
        if node is not None and node.random_access:
            cost = StageCost(stage_s, stage_cpu_s, stage_s, max(0.0, stage_s - stage_cpu_s))
        # A stage that Grain added to the single-thread run has no node in the unmodified loader.
        stages.append((cost, not count_workers(evidence.graph) or node is None or node.in_worker))
    return tuple(stages)
