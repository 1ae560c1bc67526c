"""A trial of one pipeline: its cost without netpipe, and each command's answer."""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Final

from netpipe.git import git
from netpipe.verdict.kinds import VerdictKind
from perf_tests.studies.children import run_for_json
from tests.zoo.catalogue import Pipeline

# Step time as a fraction of a batch's CPU time, too short for two workers on any machine.
_STARVED: Final = 0.1
# Step time as a multiple of a batch's time.
_FED: Final = 8.0
_LIMIT_S: Final = 300.0


@dataclass(frozen=True)
class Trial:
    """The outcome of one pipeline's trial.

    Attributes:
        plain_s_per_batch: Measured by a loop without netpipe; so is `plain_cpu_s_per_batch`.
        augment_share: Fraction of the CPU time spent in `augment`, measured without netpipe.
        lint: The rules that were reported.
        load_s_per_batch: As netpipe measures it beside the step that the loader cannot feed, so
            that buffers are empty; so is `load_cpu_s_per_batch`.
        starved: The verdict with a step that the loader cannot feed.
        fed: The verdict with a step that takes eight times as long as loading.
        stage: The stage that the diagnosis names; "" for none.
        resource: The resource that limits it.
        change: The change that the diagnosis tried; "" for none.
        made_gain: The measured speed-up by that change; 0 for no change.
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
    made_gain: float

    @property
    def is_decided(self) -> bool:
        """Whether the machine was quiet enough for both verdicts."""
        return VerdictKind.INCONCLUSIVE not in (self.starved, self.fed)


def try_pipeline(pipeline: Pipeline, seconds: float) -> Trial:
    """Try a pipeline with `seconds` per measurement, and three times that for a diagnosis.

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
        made_gain=before_s / tried["measured_s_per_batch"]["median"] if tried else 0.0,
    )


def _measure(pipeline: Pipeline, step_ms: float, seconds: float) -> Any:
    emulated = f"emulated:{step_ms:.1f}ms"
    words = ("--loader", pipeline.target, "--accelerator", emulated, "--budget", str(seconds))
    return _run("measure", *words)


def _run(*words: str) -> Any:
    """Run a command of netpipe, whatever its verdict, and return its document."""
    return run_for_json(["-m", "netpipe", *words, "--json"], {}, _LIMIT_S)
