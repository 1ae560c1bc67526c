"""The three stages as data, and the figures of the last one."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from perf_tests.studies.gate_power.side_by_side import CASES
from perf_tests.studies.gpu import __main__ as study
from perf_tests.studies.gpu import targets
from perf_tests.studies.gpu.figures import format_steps
from perf_tests.studies.gpu.running import DONE, FAILED, MARGIN_S, NO_TIME, Outcome
from perf_tests.studies.gpu.stages import RECORDED, STAGE_S, Settings, Step, make_stage
from tests.root_process import ROOT

OUT = Path("/results")
STAGES = (1, 2, 3)


def steps_of(stage: int, key: str = "h200-x1", cores: int = 16) -> dict[str, Step]:
    """Return the steps of a stage by name."""
    return {step.name: step for step in make_stage(stage, key, cores, OUT, Settings())}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_fits_into_ten_minutes(stage: int) -> None:
    """Every step can start if the steps before it take their least time."""
    assert sum(step.least_s for step in steps_of(stage).values()) < STAGE_S - MARGIN_S


def test_all_that_is_compared_is_recorded() -> None:
    """Stage 2 runs exactly the files whose tests are compared with a baseline."""
    tests = ROOT.glob("perf_tests/test_*.py")
    compared = {f"perf_tests/{path.name}" for path in tests
                if "netpipe_benchmark" in path.read_text("utf-8")}  # fmt: skip
    assert set(RECORDED) == compared
    record = steps_of(2)["record"].words
    assert record[record.index("--netpipe-sessions") + 1] == "5"
    assert record[record.index("--netpipe-budget") + 1] == "10"


def test_the_same_code_is_compared_five_times_with_what_was_recorded() -> None:
    """An alarm and an undecided comparison both fail the step."""
    record, *compared = steps_of(2).values()
    assert len(compared) == 5
    for step in compared:
        assert step.words[step.words.index("--netpipe-baselines") + 1] == "/results/baselines"
        assert {"--netpipe-missing=fail", "--netpipe-inconclusive=fail"} <= {*step.words}
    assert "/results/baselines" in record.words


def test_every_fault_has_its_targets() -> None:
    """A fault names a loader and a step of `targets.py`, one of them a loop too."""
    faults = [step for step in steps_of(3).values() if step.expects]
    assert len(faults) == 6
    for step in faults:
        named = [word.partition("targets.py:")[2] for word in step.words if "targets.py:" in word]
        assert len(named) == 2 + (step.name == "forced-sync")
        assert all(hasattr(targets, name) for name in named)


def test_versions_are_timed_side_by_side_on_the_gpu() -> None:
    """Every case has the GPU's batches and model on both sides, and only one is unchanged."""
    named = [step.words[2] for step in steps_of(3).values() if "side_by_side" in step.words[0]]
    cases = [CASES[name] for name in named]
    assert all(case.before.size == case.after.size == "gpu_" for case in cases)
    assert [case.is_slower for case in cases] == [False, True, True, True]
    assert not any("side_by_side" in step.words[0] for step in steps_of(3, "cpu-x-2").values())


def test_only_existing_steps_can_be_chosen(tmp_path: Path) -> None:
    """A mistyped step is an error, not a stage without steps."""
    arguments = ["2", "--out", str(tmp_path), "--device", "h200-x1", "--only", "absent"]
    result = CliRunner().invoke(study.main, arguments)
    assert result.exit_code == 2
    assert "--only must be one of compare-1" in result.output
    assert "found absent" in result.output


def test_the_mfu_is_that_of_the_real_step() -> None:
    """FLOPs of a step over its time and the dense peak; an emulated step has none."""
    quantity = {"median": 0.2446186796262892 / 8}
    real: dict[str, Any] = {
        "device": {"key": "h200-x1", "kind": "NVIDIA H200", "platform": "gpu", "emulated": False},
        "step_s": quantity, "train_s_per_step": quantity, "headroom": {"median": 3.0},
        "stall_fraction": {"median": 0.01}, "verdict": {"kind": "healthy"},
    }  # fmt: skip
    emulated = {**real, "device": {**real["device"], "key": "emulated-h200-x1", "emulated": True}}
    *_, first, second = format_steps([real, emulated])
    assert first == "| h200-x1 | 30.6 ms | 30.6 ms | 3.00 | 1.0% | 0.400 | healthy |"
    assert second.startswith("| emulated-h200-x1 | 30.6 ms |")
    assert "0.400" not in second


@pytest.mark.parametrize(
    ("found", "code"), [((DONE, DONE), 0), ((DONE, FAILED), 1), ((DONE, NO_TIME), 1)]
)
def test_the_summary_and_the_exit_code_tell_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: tuple[str, str], code: int
) -> None:
    """The exit code is 0 only if every step is done."""
    outcomes = [Outcome(f"step-{number}", each) for number, each in enumerate(found)]
    monkeypatch.setattr(study, "run_steps", lambda *_, **__: outcomes)
    arguments = ["2", "--out", str(tmp_path), "--device", "h200-x1"]
    result = CliRunner().invoke(study.main, arguments)
    assert result.exit_code == code
    assert f"step-1: {found[1]}" in result.stdout
    assert f"stage 2 on h200-x1: {found.count(DONE)} of 2 steps done" in result.stdout


@pytest.mark.parametrize(("exit_code", "code"), [(1, 0), (3, 0), (2, 1), (4, 1), (None, 1)])
def test_a_rehearsal_accepts_any_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exit_code: int | None, code: int
) -> None:
    """A misused command and one that took too long fail it."""
    outcomes = [Outcome("one", DONE, exit_code=0), Outcome("two", FAILED, exit_code=exit_code)]
    monkeypatch.setattr(study, "run_steps", lambda *_, **__: outcomes)
    arguments = ["1", "--out", str(tmp_path), "--device", "cpu", "--quick"]
    assert CliRunner().invoke(study.main, arguments).exit_code == code
