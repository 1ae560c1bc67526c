"""A model of what limits a loader, built from measured times. Arithmetic only.

A batch takes time in the workers, in the training process, and on the cores that both share. The
slowest of these bounds the rate, as in any closed pipeline (Denning and Buzen, The Operational
Analysis of Queueing Network Models, 1978). Processes that compute at the same time slow each other
down by the contention term of the Universal Scalability Law (Gunther, Guerrilla Capacity Planning,
2007).

The model predicts which resource limits the loader, and whether a change would help. Its times are
not reported, because one in twenty was off by a factor of two (perf_tests/studies/diagnosis).
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from operator import add, itemgetter
from statistics import median
from typing import Final

from netpipe.diagnosis.experiments.pulling_threads import Block
from netpipe.diagnosis.experiments.read_scaling import ReadScaling
from netpipe.diagnosis.experiments.stage_times import StageTime
from netpipe.diagnosis.experiments.turns import Side, SideBlocks
from netpipe.grain_access.loader_variants import count_threads, count_workers
from netpipe.grain_access.nodes import Graph
from netpipe.results.measurement import Interval

_MIN_S_PER_BATCH: Final = 1e-7
_MIN_WORKING_FRACTION: Final = 0.2


@dataclass(frozen=True)
class Evidence:
    """The measurements of a loader, from which all conclusions are drawn.

    Attributes:
        is_rebuilt: Whether the loader was rebuilt without workers and threads for the single-thread
            run; if not, that run is the unmodified loader.
        times: The stages, the largest first.
        scaling: The single-thread run in turns with its variants.
        variants: The unmodified loader in turns with its variants.
        load_s: Seconds per batch of the unmodified loader, as stated in every report.
        reads: How the loader's reads scale; None if they do not wait, or were not measured.
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

    `threaded_wall_s` is the part of the wall time that reader threads can share; `waiting_s` is the
    part of that time without CPU use.
    """

    wall_s: float = 0.0
    cpu_s: float = 0.0
    threaded_wall_s: float = 0.0
    waiting_s: float = 0.0

    def __add__(self, other: "StageCost") -> "StageCost":
        return StageCost(*map(add, astuple(self), astuple(other)))

    def with_waiting(self, factor: float) -> "StageCost":
        """Return the cost with its waiting time multiplied by `factor`."""
        more_s = self.waiting_s * (factor - 1)
        return self + StageCost(more_s, 0.0, more_s, more_s)

    @property
    def working_fraction(self) -> float:
        """Fraction of the wall time spent computing; near 0, the stages mostly wait."""
        return min(1.0, self.cpu_s / self.wall_s) if self.wall_s else 1.0


@dataclass(frozen=True)
class LoaderModel:
    """A loader as the model sees it; all times are seconds per batch.

    Attributes:
        stages: The cost of each stage, and whether it runs in the workers if there are any.
        send_s: CPU seconds that a worker takes to send a batch.
        receive_s: CPU seconds that the training process takes to receive a batch; without workers,
            the CPU seconds that reader threads add to the stages.
        gil_fraction: Fraction of the CPU time that holds Python's lock; at 1, threads do not help.
        contention: Fraction by which each further computing process slows the others down.
        reads: How reads slow down with more of them in flight; None if they do not.
    """

    stages: tuple[tuple[StageCost, bool], ...]
    workers: int
    threads: int
    cores: int
    send_s: float = 0.0
    receive_s: float = 0.0
    gil_fraction: float = 1.0
    contention: float = 0.0
    reads: ReadScaling | None = None

    @property
    def reads_in_flight(self) -> int:
        """The number of reads in flight in all processes together."""
        return max(1, self.workers) * max(1, self.threads)

    @property
    def worker_cost(self) -> StageCost:
        """The cost of a batch in a worker."""
        return _sum_costs(self.stages, in_workers=True) + StageCost(self.send_s, self.send_s)

    @property
    def trainer_cost(self) -> StageCost:
        """The cost of a batch in the training process."""
        staying = _sum_costs(self.stages, in_workers=False)
        if self.workers:
            return staying + StageCost(self.receive_s, self.receive_s)
        threads = StageCost(self.receive_s, self.receive_s, self.receive_s if self.threads else 0.0)
        return staying + _sum_costs(self.stages, in_workers=True) + threads

    def bounds_s(self) -> dict[str, float]:
        """Return the fewest seconds per batch that each resource allows, by resource name."""
        bounds = {"trainer": self._process_s(self.trainer_cost)}
        cpu_s = self.trainer_cost.cpu_s
        if self.workers:
            cost = self.worker_cost
            bounds["workers"] = self._process_s(cost) * self._slowdown(cost) / self.workers
            cpu_s += cost.cpu_s
        bounds["cores"] = cpu_s / self.cores
        return bounds

    def s_per_batch(self) -> float:
        """Return the fewest seconds per batch that all resources allow."""
        return max(_MIN_S_PER_BATCH, *self.bounds_s().values())

    def limiting_resource(self) -> str:
        """Return the name of the resource that bounds the rate."""
        return max(self.bounds_s().items(), key=itemgetter(1))[0]

    def _process_s(self, cost: StageCost) -> float:
        """Return a process's seconds per batch; its threads share the work and Python's lock."""
        if self.reads:
            cost = cost.with_waiting(self.reads.growth_at(self.reads_in_flight))
        if not self.threads:
            return cost.wall_s
        return max(
            cost.threaded_wall_s / self.threads,
            cost.wall_s - cost.threaded_wall_s,
            self.gil_fraction * cost.cpu_s,
        )

    def _slowdown(self, cost: StageCost) -> float:
        """Return the factor by which workers that compute at the same time slow each other down."""
        if not cost.wall_s:
            return 1.0
        others = min(self.workers, self.cores) - 1
        return 1 + self.contention * others * cost.working_fraction


def _sum_costs(stages: Sequence[tuple[StageCost, bool]], *, in_workers: bool) -> StageCost:
    return sum((cost for cost, in_worker in stages if in_worker is in_workers), StageCost())


def remove_stage(model: LoaderModel, index: int) -> LoaderModel:
    """Return the model of the loader with a stage that takes no time."""
    stages = list(model.stages)
    stages[index] = (StageCost(), stages[index][1])
    return replace(model, stages=tuple(stages))


def build_model(evidence: Evidence, side: str = Side.UNMODIFIED) -> LoaderModel:
    """Return the model of the unmodified loader, or of the loader with one worker."""
    stages = _scale_stages(evidence)
    in_workers = _sum_costs(stages, in_workers=True)
    in_trainer = _sum_costs(stages, in_workers=False)
    total = in_workers + in_trainer
    model = LoaderModel(
        stages,
        workers=1 if side == Side.ONE_WORKER else count_workers(evidence.graph),
        # A pipeline that is given workers loses its reader threads.
        threads=0 if side == Side.ONE_WORKER else count_threads(evidence.graph),
        reads=evidence.reads,
        cores=evidence.cores,
        # Waiting threads reveal nothing about the lock, so assume that all computing holds it.
        gil_fraction=1.0 if evidence.reads else _estimate_gil_fraction(evidence.scaling),
        contention=_estimate_contention(evidence.scaling, total.working_fraction),
    )
    trainer_s, workers_s = _median_cpu_s(evidence.variants.blocks[side])
    if not model.workers:
        receive_s = max(0.0, trainer_s - total.cpu_s) if model.threads else 0.0
        return replace(model, receive_s=receive_s)
    return replace(
        model,
        send_s=max(0.0, workers_s - in_workers.cpu_s),
        receive_s=max(0.0, trainer_s - in_trainer.cpu_s),
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
    # A process slows another one down only while it computes.
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
    """Return stage costs that add up to the single-thread run, which was not instrumented."""
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
