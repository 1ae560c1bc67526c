"""The stages as data: the commands of each, the most valuable first."""

import re
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from netpipe.device.accelerators import peak_flops_of_name

STAGE_S: Final = 600.0
"""Seconds of a stage, to which the limits of its steps belong."""

RECORDED: Final = ("perf_tests/test_loading.py", "perf_tests/test_training.py")
"""The files of all tests that are compared with a baseline."""
_WORK: Final = "perf_tests/test_work.py"
_TARGETS: Final = "perf_tests/studies/gpu/targets.py:"
_WORKERS: Final = (1, 2, 4, 8, 15)
_FAULTS: Final = {
    "fine": ("healthy", "at-risk"),
    "loader-bound": ("loader-bound",),
    "forced-sync": ("forced-sync",),
    "transfer": ("transfer-bound",),
    "donation": ("donation-missing",),
    "recompiling": ("recompiling",),
}
"""The faults planted in `targets.py`, and the right verdicts or findings."""
_SIDE_BY_SIDE: Final = {
    "unchanged": "GPU, nothing, training",
    "slower-loader": "GPU, loader CPU, 5%",
    "slower-step": "GPU, step, 5%",
    "slower-transfer": "GPU, transfer, 1 GiB",
}
"""Versions timed side by side, as cases of the gate's study."""


@dataclass(frozen=True)
class Step:
    """A command of a stage.

    Attributes:
        words: The words after `python -m`.
        limit_s: Seconds that it may take of the stage's `STAGE_S`.
        least_s: Seconds below which it is not worth starting.
        needs: A module without which it cannot run.
        expects: Accepted verdicts or findings of the measurement that it prints; empty if its
            exit code decides.
    """

    name: str
    words: tuple[str, ...]
    limit_s: float = 90.0
    least_s: float = 20.0
    needs: str = ""
    expects: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    """The durations and counts of all stages.

    Attributes:
        budget_s: Seconds of rounds of each measurement.
        sessions: Sessions of the baseline that stage 2 records.
        comparisons: Number of comparisons with the same code.
        rounds: Runs of `seconds` each for each number of workers.
    """

    budget_s: float = 10.0
    sessions: int = 5
    comparisons: int = 5
    rounds: int = 2
    seconds: float = 3.0


QUICK: Final = Settings(budget_s=5.0, sessions=2, comparisons=1, rounds=1, seconds=0.5)


def make_stage(stage: int, key: str, cores: int, out: Path, settings: Settings) -> list[Step]:
    """Return the steps of a stage, 1 to 3, on the device of this key; `out` takes their files."""
    if stage == 1:
        return _first_look(key, out, settings)
    return _baseline(key, out, settings) if stage == 2 else _figures(key, cores, out, settings)


def _pytest(key: str, settings: Settings, *words: str) -> tuple[str, ...]:
    budget = ("--netpipe-budget", f"{settings.budget_s:g}")
    return ("pytest", *words, "--netpipe-device", key, *budget, "-p", "no:cacheprovider")


def _measure(settings: Settings, loader: str, step: str, *words: str) -> tuple[str, ...]:
    budget = ("--budget", f"{settings.budget_s:g}")
    targets = ("--loader", loader, "--step", step)
    return ("netpipe", "measure", *targets, *budget, *words, "--quiet", "--json")


def _own(key: str, settings: Settings, *words: str) -> tuple[str, ...]:
    """Return the command that measures this repository's pipeline and step, sized for a device."""
    size = "" if key.startswith("cpu") else "gpu_"
    targets = (f"fixtures/targets.py:{size}{name}" for name in ("loader", "step"))
    return _measure(settings, *targets, *words)


def _first_look(key: str, out: Path, settings: Settings) -> list[Step]:
    run = str(out / "tests.json")
    others = ("perf_tests", *(f"--ignore={path}" for path in (_WORK, *RECORDED)))
    return [
        Step("devices", ("netpipe", "devices", "--json")),
        Step("doctor", ("netpipe", "doctor", "--json")),
        Step("probe", ("perf_tests.studies.gpu.probe",), limit_s=120.0),
        Step("tests", _pytest(key, settings, *RECORDED, "--netpipe-json", run), limit_s=150.0,
             least_s=40.0),
        Step("other-tests", _pytest(key, settings, *others), limit_s=150.0, least_s=40.0),
        Step("trace", _own(key, settings, "--trace", str(out / "traces")), limit_s=120.0),
        Step("work", _pytest(key, settings, _WORK), limit_s=120.0, needs="memray"),
        Step("page", ("netpipe", "report", run, "--html", str(out / "tests.html")),
             least_s=5.0, needs="matplotlib"),
    ]  # fmt: skip


def _baseline(key: str, out: Path, settings: Settings) -> list[Step]:
    def run(name: str, *words: str) -> tuple[str, ...]:
        files = ("--netpipe-baselines", str(out / "baselines"), "--netpipe-json",
                 str(out / f"{name}.json"))  # fmt: skip
        return _pytest(key, settings, *RECORDED, *words, *files)

    record = ("--netpipe-record", "first", "--netpipe-sessions", str(settings.sessions))
    compare = ("--benchmark-compare", "--netpipe-missing=fail", "--netpipe-inconclusive=fail")
    names = [f"compare-{number}" for number in range(1, settings.comparisons + 1)]
    return [
        Step("record", run("record", *record), limit_s=400.0, least_s=120.0),
        *(Step(name, run(name, *compare), limit_s=180.0, least_s=60.0) for name in names),
    ]


def _figures(key: str, cores: int, out: Path, settings: Settings) -> list[Step]:
    model = re.sub(r"-x\d+$", "", key)
    emulated = f"emulated:{model if peak_flops_of_name(model) else '60ms'}"
    few = takewhile(lambda workers: workers < cores, _WORKERS)
    counts = ",".join(map(str, dict.fromkeys([*few, max(1, cores - 1)])))
    throughput = ("netpipe", "throughput", "--workers", counts, "--rounds", str(settings.rounds),
                  "--seconds", f"{settings.seconds:g}", "--json")  # fmt: skip
    return [
        Step("real-and-emulated", _own(key, settings, "--accelerator", f"auto,{emulated}"),
             limit_s=150.0),
        Step("workers", throughput, limit_s=150.0),
        *(Step(name, _side_by_side(case, out, settings), limit_s=120.0, least_s=40.0)
          for name, case in _SIDE_BY_SIDE.items() if not key.startswith("cpu")),
        *(Step(name, _fault(name, settings), expects=kinds) for name, kinds in _FAULTS.items()),
        Step("figures", ("perf_tests.studies.gpu.figures", str(out)), least_s=5.0),
    ]  # fmt: skip


def _side_by_side(case: str, out: Path, settings: Settings) -> tuple[str, ...]:
    words = ("--only", case, "--budget", f"{settings.budget_s:g}")
    trials = ("--trials", str(out / "side_by_side.jsonl"))
    return ("perf_tests.studies.gate_power.side_by_side", *words, *trials)


def _fault(name: str, settings: Settings) -> tuple[str, ...]:
    target = f"{_TARGETS}{name.replace('-', '_')}"
    loop = ("--loop", f"{target}_loop") if name == "forced-sync" else ()
    return _measure(settings, f"{target}_loader", f"{target}_step", *loop)
