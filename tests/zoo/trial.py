"""Trying one pipeline: what it takes without netpipe, and what each command says of it."""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Final

from netpipe.git import git
from netpipe.verdict.kinds import VerdictKind
from perf_tests.studies.children import run_for_json
from tests.zoo.catalogue import Pipeline

# The emulated step takes this part of the CPU time of a batch, which two workers cannot reach on a
# machine of any load, or this many times the time of a batch.
_STARVED: Final = 0.1
_FED: Final = 8.0
_LIMIT_S: Final = 300.0


@dataclass(frozen=True)
class Trial:
    """What was found of one pipeline.

    Attributes:
        plain_s_per_batch: Measured by a loop without netpipe; so is `plain_cpu_s_per_batch`.
        augment_share: The share of the CPU time that `augment` takes, measured without netpipe.
        lint: The rules that were reported.
        load_s_per_batch: As netpipe measures it beside the step that the loader cannot feed, so
            that buffers are empty; so is `load_cpu_s_per_batch`.
        starved: The verdict with a step that the loader cannot feed.
        fed: The verdict with a step that takes eight times as long as loading.
        stage: The stage that the diagnosis names; "" for none.
        resource: What binds it.
        change: The change that the diagnosis tried; "" for none.
        predicted_gain: How many times as fast it should be, and `made_gain` is; 0 for no change.
    """

    pipeline: str
    commit: str
    versions: dict[str, str]
    plain_s_per_batch: float
    plain_cpu_s_per_batch: float
    augment_share: float
    lint: tuple[str, ...]
    load_s_per_batch: float
    load_cpu_s_per_batch: float
    starved: str
    fed: str
    stage: str
    resource: str
    change: str
    predicted_gain: float
    made_gain: float

    @property
    def is_decided(self) -> bool:
        """Whether the machine was quiet enough for both verdicts."""
        return VerdictKind.INCONCLUSIVE not in (self.starved, self.fed)


def try_pipeline(pipeline: Pipeline, seconds: float) -> Trial:
    """Try a pipeline, with a budget of `seconds` for each measurement and thrice for a diagnosis.

    Raises:
        ChildError: A command failed.
    """
    plain = run_for_json(["-m", "tests.zoo.plain", pipeline.target], {}, _LIMIT_S)
    lint = _run("lint", pipeline.target)
    starved, fed = (
        _measure(pipeline, 1000 * step_s, seconds)
        for step_s in (_STARVED * plain["cpu_s_per_batch"], _FED * plain["s_per_batch"])
    )
    diagnosis = _run("diagnose", "--loader", pipeline.target, "--budget", str(3 * seconds))
    tried = diagnosis["verified"] or {}
    before_s = diagnosis["load_s_per_batch"]["median"]

    def gain(time: str) -> float:
        return float(before_s / tried[time]["median"]) if tried else 0.0

    return Trial(
        pipeline=pipeline.name,
        commit=git(Path(), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"),
        versions={name: version(name) for name in pipeline.packages},
        plain_s_per_batch=plain["s_per_batch"],
        plain_cpu_s_per_batch=plain["cpu_s_per_batch"],
        augment_share=plain["augment_share"],
        lint=tuple(sorted({found["rule"] for found in lint["findings"]})),
        load_s_per_batch=starved["load_s_per_batch"]["median"],
        load_cpu_s_per_batch=median(starved["rounds"]["load_cpu_s_per_batch"]),
        starved=starved["verdict"]["kind"],
        fed=fed["verdict"]["kind"],
        stage=diagnosis["bottleneck"]["stage"] or "",
        resource=diagnosis["bottleneck"]["resource"],
        change=tried.get("change", ""),
        predicted_gain=gain("predicted_s_per_batch"),
        made_gain=gain("measured_s_per_batch"),
    )


def _measure(pipeline: Pipeline, step_ms: float, seconds: float) -> Any:
    emulated = f"emulated:{step_ms:.1f}ms"
    words = ("--loader", pipeline.target, "--accelerator", emulated, "--budget", str(seconds))
    return _run("measure", *words)


def _run(*words: str) -> Any:
    """Run a command of netpipe, whatever its verdict, and return its document."""
    return run_for_json(["-m", "netpipe", *words, "--json"], {}, _LIMIT_S)
