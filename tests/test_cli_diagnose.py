"""`netpipe diagnose`: its output and its exit codes."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from netpipe.diagnosis import diagnose
from netpipe.diagnosis.diagnose import has_step
from netpipe.diagnosis.diagnosis import Diagnosis
from netpipe.diagnosis.experiments.turns import NO_TIME
from netpipe.jobs.parent import run_session
from netpipe.jobs.request import SessionRequest
from netpipe.jobs.targets import name_targets
from netpipe.measuring.measure_request import MeasureRequest
from tests.command import Netpipe, document
from tests.diagnosis.examples import LINT, diagnosis, findings, stage
from tests.measurements import make_measurement
from tests.sessions_here import sessions_here as sessions_here

LOADERS = "tests.diagnosis.loaders:{}"
ODD = "Map of f[/x] :smile: [red]"


@pytest.fixture(autouse=True)
def _sessions_find_these_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ":".join([str(Path(__file__).parent.parent), *sys.path]))


@pytest.fixture
def _diagnosed_here(monkeypatch: pytest.MonkeyPatch, sessions_here: Callable[..., Any]) -> None:
    """Run the sessions of a diagnosis in this process."""
    monkeypatch.setattr(diagnose, "run_session", sessions_here)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Replace diagnosing by a made-up diagnosis; return the requests."""
    given: list[Any] = []

    def stand_in(asked: MeasureRequest, *settings: Any) -> Diagnosis:
        given.append((asked, *settings))
        finding = {"severity": "warning", "rule": "no-prefetch", "message": ODD}
        return diagnosis(
            sentence=f"Stage {ODD}.",
            findings=findings(stages=(stage(ODD),)),
            lint={**LINT, "findings": [finding]},
            measurement=make_measurement(load_s=0.04, train_s=0.04, busy_elsewhere_fraction=0.9)
            if has_step(asked)
            else None,
        )

    monkeypatch.setattr(diagnose, "run_diagnosis", stand_in)
    return given


def test_the_sentence_comes_first(netpipe: Netpipe, asked: list[Any]) -> None:
    """The tables, the tried change and the findings of lint follow; names are printed literally."""
    result = netpipe("diagnose", "--loader", "a:b")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[:2] == [f"Stage {ODD}.", ""]
    assert lines[-1] == f"warning no-prefetch: {ODD}"
    assert lines[-2].endswith(findings().unverified)
    assert any(ODD in line and "mine.py:7" in line for line in lines)
    assert asked[0][0].budget_s == 20.0


@pytest.mark.usefixtures("asked")
def test_the_usual_time_is_printed_first(netpipe: Netpipe) -> None:
    """The budget and two starts are printed on standard error, unless --quiet is given."""
    said = netpipe("diagnose", "--loader", "a:b", "--budget", "60").stderr
    assert "usually takes 84 s" in said
    assert netpipe("diagnose", "--loader", "a:b", "--quiet").stderr == ""


def test_options_reach_the_session(netpipe: Netpipe, asked: list[Any]) -> None:
    """A loader that does not feed its step fails the command, as `measure` does."""
    result = netpipe(
        "diagnose", "--loader", "a:b", "--step", "a:s", "--loop", "a:l", "--accelerator",
        "emulated:h100", "--flops-per-step", "4e12", "--mfu", "0.5", "--budget", "9",
        "--batch-limit", "7", "--start-limit", "900",
    )  # fmt: skip
    assert result.exit_code == 1
    assert "\nbusy-host: other programs took 90.0%" in result.stdout
    request, linting, _ = asked[0]
    assert request.targets == name_targets(loader="a:b", step="a:s", loop="a:l")
    step = (request.accelerator, request.flops_per_step, request.mfu)
    assert step == ("emulated:h100", 4e12, 0.5)
    assert (request.budget_s, request.batch_limit_s, request.start_limit_s) == (9.0, 7.0, 900.0)
    assert linting.intent == "throughput"
    assert isinstance(linting.silences, dict)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "0"), "the budget .*above 0 .*found 0"),
        (("--budget", "nan"), "the budget .*above 0 .*found nan"),
        (("--batch-limit", "0"), "the batch limit .*above 0 .*found 0"),
        (("--mfu", "2"), "the MFU .*above 0, .* at most 1; found 2"),
        (("--flops-per-step", "0"), "the FLOPs .*above 0, .*found 0"),
        (("--accelerator", "emulated:"), "emulated:"),
    ],
)
def test_bad_options_are_refused(netpipe: Netpipe, words: tuple[str, ...], said: str) -> None:
    """Standard error has one clear line, and nothing starts."""
    result = netpipe("diagnose", "--loader", LOADERS.format("plain"), *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert re.search(said, result.stderr)
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.usefixtures("_diagnosed_here")
@pytest.mark.parametrize(
    ("loader", "said"),
    [
        ("no_target", r"a target .*package\.module:name .*path/to/file\.py:name"),
        ("no.such.module:loader", r"module no\.such\.module: .*found none"),
        (LOADERS.format("none"), r"tests\.diagnosis\.loaders: name .*plain.*found"),
        (LOADERS.format("empty"), r"loader\(\) gave no batch"),
    ],
)
def test_bad_targets_are_refused(netpipe: Netpipe, loader: str, said: str) -> None:
    """Standard error has one clear line for any mistake in the loader."""
    result = netpipe("diagnose", "--loader", loader, "--budget", "0.1", "--quiet")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert re.match(f"netpipe: {said}", result.stderr)
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.usefixtures("_diagnosed_here")
def test_the_error_of_a_loader_is_reported(netpipe: Netpipe) -> None:
    """The error is the first line, and its place is below; brackets are printed literally."""
    loader = LOADERS.format("raising")
    result = netpipe("diagnose", "--loader", loader, "--budget", "0.1", "--quiet")
    assert result.exit_code == 2
    assert result.stderr.startswith("netpipe: OSError: no [bold]data[/x]")
    assert "loaders.py" in result.stderr


@pytest.fixture
def _unhurried(monkeypatch: pytest.MonkeyPatch, sessions_here: Callable[..., Any]) -> None:
    """Run every part of a diagnosis even on a busy machine; lint in this process."""

    def run_unhurried(command: Sequence[str], request: SessionRequest, **named: Any) -> Any:
        if request.kind == "lint":
            return sessions_here(command, request)
        command = [*command[:-1], "tests.diagnosis.child_without_limit"]
        return run_session(command, request, **named)

    monkeypatch.setattr(diagnose, "run_session", run_unhurried)


@pytest.mark.usefixtures("_unhurried")
def test_a_loader_is_diagnosed(netpipe: Netpipe) -> None:
    """The whole document is valid, has the stages of the pipeline, and its sentence."""
    loader = LOADERS.format("unsendable")
    result = netpipe("diagnose", "--loader", loader, "--budget", "0.5", "--json", "--quiet")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    found = document(result, "diagnosis.1.json")
    largest, stages = found["stages"][0], {one["name"]: one for one in found["stages"]}
    assert found["sentence"].startswith("Loads ")
    assert f"Stage {largest['name']} takes" in found["sentence"]
    assert found["bottleneck"]["stage"] == largest["name"]
    assert (found["lane"], found["workers"], found["threads"]) == ("rebuilt", 0, 0)
    assert stages.keys() >= {"Source", "Batch", "ToIter"}
    graph = {one["id"]: one for one in found["lint"]["graph"]}
    stage = stages["Map of tests.diagnosis.loaders.unsendable.<locals>.locked"]
    assert graph[stage["node"]]["kind"] == "Map"
    made = {one["name"]: one for one in found["interventions"]}
    for name in ("two-threads", "two-processes", "without-stage"):
        # Time may run out on a busy machine.
        assert made[name]["speedup"] or NO_TIME in made[name]["says"]
    assert (stage["without_s_per_batch"] is None) is (made["without-stage"]["speedup"] is None)
    assert {one["kind"] for one in found["what_if"]} >= {"workers", "without-stage"}
    assert found["start_up"]["import_s"] > 0
    assert found["start_up"]["shipping_s"] is None
    assert found["start_up"]["first_read_s"] > 0
    assert found["measurement"] is None
    assert found["verified"] is None
    assert any("could not be tried: " in remark for remark in found["remarks"])
