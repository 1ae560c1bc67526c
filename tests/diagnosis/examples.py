"""Parts of a diagnosis, made from a few figures."""

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from netpipe.diagnosis.cost_model import Evidence
from netpipe.diagnosis.diagnose_request import InvestigationRequest
from netpipe.diagnosis.diagnosis import (
    Bottleneck,
    Diagnosis,
    Findings,
    Intervention,
    Prediction,
    Stage,
    Verification,
)
from netpipe.diagnosis.experiments.pulling_threads import Block
from netpipe.diagnosis.experiments.stage_times import StageTime
from netpipe.diagnosis.experiments.turns import SideBlocks
from netpipe.grain_access.nodes import Graph, Node
from netpipe.jobs.targets import name_targets
from netpipe.results.measurement import Interval
from tests.measurements import HOST

NAME = "Map of mine.tokenize"
LINT: dict[str, Any] = {
    "schema": "netpipe.lint/1",
    "intent": "throughput",
    "grain_version": "0.2.18",
    "graph": [],
    "findings": [],
    "silenced": [],
    "trials": [],
}


def interval(median: float, low: float | None = None, high: float | None = None) -> Interval:
    """Return an interval, by default a tenth to either side."""
    low = 0.9 * median if low is None else low
    return Interval(median, low, 1.1 * median if high is None else high, 5)


def block(s_per_batch: float, cpu_s: float | None = None, **more: float) -> Block:
    """Return a block of this process, which by default computes all the time."""
    own_s = s_per_batch if cpu_s is None else cpu_s
    return Block(s_per_batch, own_s, **more)


def turns(rounds: int = 3, **sides: Block | float) -> SideBlocks:
    """Return equal rounds; `two_threads` is the side "two-threads"."""
    return in_rounds(**{name: [measured] * rounds for name, measured in sides.items()})


def in_rounds(**sides: Sequence[Block | float]) -> SideBlocks:
    """Return rounds that differ; `two_threads` is the side "two-threads"."""
    return SideBlocks(
        {
            name.replace("_", "-"): [
                measured if isinstance(measured, Block) else block(measured) for measured in each
            ]
            for name, each in sides.items()
        }
    )


def evidence(**given: Any) -> Evidence:
    """Return the measurements of a loader that is not Grain's and takes 40 ms per batch."""
    return Evidence(
        **{
            "graph": Graph(),
            "cores": 8,
            "is_rebuilt": True,
            "times": (),
            "scaling": turns(single_thread=0.040),
            "variants": turns(unmodified=0.040),
            "load_s": interval(0.040),
            **given,
        }
    )


def node(number: int, kind: str, *parents: int, **more: Any) -> Node:
    """Return a node; settings that are not its fields are its parameters."""
    names = ("in_worker", "random_access", "made_at")
    fields = {name: more.pop(name) for name in names if name in more}
    return Node(number, kind, more, parents, fields.pop("in_worker", False), **fields)


def stage_time(
    name: str, s_per_batch: float, cpu_s: float | None = None, node: Node | None = None
) -> StageTime:
    """Return a stage, which by default computes all the time."""
    own_s = s_per_batch if cpu_s is None else cpu_s
    number = None if node is None else node.id
    return StageTime(name, node, number, "", "", s_per_batch, own_s)


def with_workers_graph(workers: int = 2, threads: int = 0) -> Graph:
    """Return the graph of a source, a map and a batch in workers."""
    return Graph(
        (
            node(0, "ProcessPrefetch", 1, num_workers=workers),
            node(1, "Batch", 2, in_worker=True),
            node(2, "ToIter", 3, in_worker=True, num_threads=threads),
            node(3, "Map", 4, in_worker=True, random_access=True, transform="mine.tokenize"),
            node(4, "Source", in_worker=True, random_access=True),
        )
    )


def stage(name: str = NAME, s_per_batch: float = 0.030, **more: Any) -> Stage:
    """Return a stage that computes all of its time."""
    given: dict[str, Any] = {
        "node": 3,
        "function": "mine.tokenize",
        "made_at": "mine.py:7",
        "section": "workers",
        "cpu_s_per_batch": s_per_batch,
        "fraction": 0.75,
        "by": "timing",
        **more,
    }
    return Stage(name=name, s_per_batch=s_per_batch, **given)


BOTTLENECK = Bottleneck(NAME, "gil", 0.71, "threads 1 to 2: +4%, processes 1 to 2: +93%")
THREE_WORKERS = Prediction("3 workers", "workers", "faster")
VERIFIED = Verification(
    "3 workers",
    "workers", interval(0.016), interval(0.022), "3 workers: 16 ms instead of 22 ms"
)  # fmt: skip


def findings(**more: Any) -> Findings:
    """Return the findings about a loader with two workers."""
    given: dict[str, Any] = {
        "load_s_per_batch": interval(0.020),
        "load_cpu_s_per_batch": interval(0.042),
        "lane": "rebuilt",
        "lane_s_per_batch": interval(0.040),
        "lane_cpu_s_per_batch": interval(0.039),
        "workers": 2,
        "threads": 0,
        "stages": (stage(), stage("Source", 0.010, section="threads", node=4, fraction=0.25)),
        "bottleneck": BOTTLENECK,
        "interventions": (
            Intervention(
                "two-processes",
                "two single-thread runs, each in a process",
                interval(0.040),
                interval(0.021),
                interval(1.9),
                "1.90 times as fast",
            ),
            Intervention(
                "tiny-payload", "nothing is sent", None, None, None, "not made: no memory"
            ),
        ),
        "what_if": (THREE_WORKERS,),
        "verified": None,
        "unverified": "there was no time",
        "elapsed_s": 61.5,
        **more,
    }
    return Findings(**given)


def diagnosis(**more: Any) -> Diagnosis:
    """Return the diagnosis of such a loader without a step."""
    given: dict[str, Any] = {
        "sentence": "Loads 50 batches/s.",
        "findings": findings(),
        "measurement": None,
        "lint": LINT,
        "host": HOST,
        "versions": {"grain": "0.2.18"},
        **more,
    }
    return Diagnosis(**given)


def investigation_request(
    budget_s: float = 1.0, step_s: float | None = None, load_s: Interval | None = None
) -> InvestigationRequest:
    """Return the request of an investigation whose loader no other process can import."""
    fields = None if load_s is None else astuple(load_s)
    return InvestigationRequest(
        targets=name_targets(loader="a:b"), wanted_s=budget_s, step_s=step_s, load_s=fields
    )
