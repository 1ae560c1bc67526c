"""What bounds a loader, and so what a change would give: arithmetic over measured parts. Pure.

A batch passes the workers, the process that trains, and the cores that both share; the slowest
bounds the rate, as in any closed pipeline (Denning and Buzen, The Operational Analysis of Queueing
Network Models, 1978). That lanes slow each other is the contention term of the Universal
Scalability Law (Gunther, Guerrilla Capacity Planning, 2007).
"""

from dataclasses import dataclass, replace
from typing import Final

_LEAST_S: Final = 1e-7


@dataclass(frozen=True)
class Work:
    """What the stages of one section take for a batch, in one thread.

    Attributes:
        wall_s: Wall seconds.
        cpu_s: CPU seconds of those.
        threaded_wall_s: Wall seconds of the stages that reader threads work on.
    """

    wall_s: float = 0.0
    cpu_s: float = 0.0
    threaded_wall_s: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.wall_s + other.wall_s,
            self.cpu_s + other.cpu_s,
            self.threaded_wall_s + other.threaded_wall_s,
        )

    def __mul__(self, factor: float) -> "Work":
        return Work(self.wall_s * factor, self.cpu_s * factor, self.threaded_wall_s * factor)


@dataclass(frozen=True)
class Parts:
    """A loader as the model sees it.

    Attributes:
        stages: The work of each stage, by its place in the list of stages, and whether a worker
            does it where there are workers.
        workers: Worker processes; 0: all is done where the training is.
        threads: Reader threads of each process that reads; 0: none.
        cores: That may be used.
        send_s: CPU seconds of a worker for sending a batch, its contents aside.
        receive_s: CPU seconds of the process that trains for receiving it, its contents aside;
            without workers what its reader threads cost beside the stages.
        payload_send_s: What its contents add to the one.
        payload_receive_s: What its contents add to the other.
        gil_fraction: Share of the CPU time that holds Python's lock; 1: threads do not help.
        contention: By what share each further computing lane slows every other one.
        worker_rest_s: Wall seconds of a worker for a batch that no stage accounts for.
        trainer_rest_s: Those of the process that trains.
    """

    stages: tuple[tuple[Work, bool], ...]
    workers: int
    threads: int
    cores: int
    send_s: float = 0.0
    receive_s: float = 0.0
    payload_send_s: float = 0.0
    payload_receive_s: float = 0.0
    gil_fraction: float = 1.0
    contention: float = 0.0
    worker_rest_s: float = 0.0
    trainer_rest_s: float = 0.0

    @property
    def in_workers(self) -> Work:
        """What each worker does for a batch of its own."""
        work = sum((one for one, movable in self.stages if movable), Work())
        send_s = self.send_s + self.payload_send_s
        return work + Work(send_s, send_s)

    @property
    def in_trainer(self) -> Work:
        """What the process that trains does for every batch."""
        if not self.workers:
            own_s = self.receive_s
            threads = Work(own_s, own_s, own_s if self.threads else 0.0)
            return sum((one for one, _ in self.stages), threads)
        work = sum((one for one, movable in self.stages if not movable), Work())
        receive_s = self.receive_s + self.payload_receive_s
        return work + Work(receive_s, receive_s)

    def bounds_s(self) -> dict[str, float]:
        """Return the seconds a batch that each resource needs at least, by its name."""
        bounds = {"trainer": self._serial_s(self.in_trainer) + self.trainer_rest_s}
        cpu_s = self.in_trainer.cpu_s
        if self.workers:
            work = self.in_workers
            alone_s = self._serial_s(work) + self.worker_rest_s
            bounds["workers"] = alone_s * self._slowed(work) / self.workers
            cpu_s += work.cpu_s
        bounds["cores"] = cpu_s / self.cores
        return bounds

    def s_per_batch(self) -> float:
        """Return the seconds a batch that all of them together allow."""
        return max(_LEAST_S, *self.bounds_s().values())

    def binding(self) -> str:
        """Return the name of the resource that bounds."""
        bounds = self.bounds_s()
        return max(bounds, key=lambda name: bounds[name])

    def _serial_s(self, work: Work) -> float:
        """Return what a process takes for a batch: its threads read ahead, one lock is theirs."""
        if not self.threads:
            return work.wall_s
        return max(
            work.threaded_wall_s / self.threads,
            work.wall_s - work.threaded_wall_s,
            self.gil_fraction * work.cpu_s,
        )

    def _slowed(self, work: Work) -> float:
        """Return by what factor the workers that compute at the same time slow each other."""
        if not work.wall_s:
            return 1.0
        beside = min(self.workers, self.cores) - 1
        return 1 + self.contention * beside * min(1.0, work.cpu_s / work.wall_s)

    def held_to(self, measured_s: float) -> "Parts":
        """Return the parts with a rest, so that they take as long for a batch as was measured.

        What wakes up late, or is not seen for another reason, is still there when a stage is not.
        Of cores that are used up nothing is known that way: others may have used them too.
        """
        missing_s, binding = measured_s - self.s_per_batch(), self.binding()
        if missing_s <= 0 or binding == "cores":
            return self
        if binding == "trainer":
            return replace(self, trainer_rest_s=missing_s)
        rest_s = missing_s * self.workers / self._slowed(self.in_workers)
        return replace(self, worker_rest_s=rest_s)


def scaled(parts: Parts, factor: float) -> Parts:
    """Return the loader whose batches are `factor` times the size."""
    smaller = replace(
        parts,
        stages=tuple((work * factor, movable) for work, movable in parts.stages),
        worker_rest_s=parts.worker_rest_s * factor,
        trainer_rest_s=parts.trainer_rest_s * factor,
    )
    return with_payload(smaller, factor)


def with_workers(parts: Parts, workers: int) -> Parts:
    """Return the loader with so many workers."""
    return replace(parts, workers=workers)


def with_stage_times(parts: Parts, place: int, factor: float) -> Parts:
    """Return the loader with one stage that takes `factor` times as long; 0: it is absent."""
    stages = tuple(
        (work * factor, movable) if number == place else (work, movable)
        for number, (work, movable) in enumerate(parts.stages)
    )
    return replace(parts, stages=stages)


def with_payload(parts: Parts, factor: float) -> Parts:
    """Return the loader whose workers send `factor` times the bytes; 0: nothing."""
    return replace(
        parts,
        payload_send_s=parts.payload_send_s * factor,
        payload_receive_s=parts.payload_receive_s * factor,
    )
