"""Loops that wait for the device, or do work of their own."""

from collections.abc import Iterable
from typing import Final

from perf_tests.studies.faults.cases import STEP_S, Case, Range, Values, load_s
from perf_tests.studies.faults.parts.batches import Batch
from perf_tests.studies.faults.parts.delays import Spend, Steady, compute, wait
from perf_tests.studies.faults.parts.loaders import Prefetched, in_main_thread
from perf_tests.studies.faults.parts.loops import READS, Curriculum, reading, working
from perf_tests.studies.faults.parts.steps import donating

_SYNC = ("forced-sync",)
# Shared by a session's loader and its loop.
_CURRICULUM = Curriculum()


def _in_main_thread(values: Values) -> Iterable[Batch]:
    return in_main_thread(Steady(load_s(values)))


def _each_step(name: str) -> Case:
    return Case(
        f"sync-{name}",
        "forced-sync",
        f"the loop blocks after each step: {name}",
        _SYNC,
        _in_main_thread,
        {"step_s": STEP_S, "load_ratio": Range(0.3, 0.7)},
        loop=lambda _: reading(READS[name]),
    )


def _now_and_then(name: str) -> Case:
    return Case(
        f"sync-{name}-each-tenth",
        "forced-sync",
        f"the loop blocks after every tenth step, with little headroom: {name}",
        _SYNC,
        _in_main_thread,
        {"step_s": STEP_S, "load_ratio": Range(0.85, 0.95)},
        loop=lambda _: reading(READS[name], every=10),
        budget_ratio=2.0,
    )


def _host(name: str, plants: str, spend: Spend) -> Case:
    return Case(
        f"host-{name}",
        "host-bound",
        plants,
        ("host-bound",),
        lambda values: Prefetched(in_main_thread(Steady(load_s(values))), depth=4),
        {"step_s": STEP_S, "load_ratio": Range(0.1, 0.4), "work_ratio": Range(1.3, 2.0)},
        loop=lambda values: working(spend, values["work_ratio"] * values["step_s"]),
    )


CASES: Final = (
    *(_each_step(name) for name in READS),
    _now_and_then("float"),
    _now_and_then("device-get"),
    Case(
        "sync-on-a-cpu",
        "forced-sync",
        "the loop reads the loss of each real step on the CPU, so loading overlaps none",
        _SYNC,
        lambda values: in_main_thread(Steady(values["load_s"])),
        {"products": Range(30, 50, whole=True), "load_s": Range(0.012, 0.016)},
        loop=lambda _: reading(READS["float"]),
        step=lambda values: donating(int(values["products"])),
    ),
    Case(
        "curriculum",
        "no-overlap",
        "the sampler chooses the next batch by the last loss, so loading waits for the step",
        ("no-overlap", "forced-sync"),
        lambda values: _CURRICULUM.choose(in_main_thread(Steady(load_s(values)))),
        {"step_s": STEP_S, "load_ratio": Range(0.3, 0.7)},
        loop=lambda _: _CURRICULUM.loop,
        why="it is a sync, inside the loader instead of the loop, and loading overlaps nothing",
    ),
    _host("logs", "the loop sends metrics over the network after each step", wait),
    Case(
        "host-and-loading-in-turn",
        "host-bound",
        "the loop's own work and loading, each shorter than a step, take longer than it together",
        ("host-bound",),
        _in_main_thread,
        {"step_s": STEP_S, "load_ratio": Range(0.4, 0.6), "work_ratio": Range(0.75, 0.95)},
        loop=lambda values: working(wait, values["work_ratio"] * values["step_s"]),
    ),
    _host("computes", "the loop computes metrics in Python after each step", compute),
)
