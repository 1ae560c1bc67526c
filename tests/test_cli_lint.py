"""`netpipe lint`: its output streams and its exit codes."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from netpipe.grain_access.nodes import Graph, Node
from netpipe.jobs import parent
from netpipe.linting.lint_request import LintRequest
from netpipe.linting.linter import LintReport
from netpipe.linting.rules.finding import LintFinding, SilencedFinding
from tests.command import Netpipe, document
from tests.sessions_here import sessions_here as sessions_here

PIPELINES = """
import grain
from absl import flags

flags.FLAGS.mark_as_parsed()
one, workers = (grain.MultiprocessingOptions(num_workers=count) for count in (1, 2))
alone = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)

def ordered():
    return grain.MapDataset.range(64).batch(4).to_iter_dataset(alone).mp_prefetch(one)

def disordered():
    return grain.MapDataset.range(64).to_iter_dataset(alone).mp_prefetch(workers).batch(4)

def filtered():
    ordered = grain.MapDataset.range(64).to_iter_dataset(alone)
    return ordered.filter(lambda number: number % 3).batch(4).mp_prefetch(workers)

def unreachable():
    return grain.MapDataset.range(64).batch(4).mp_prefetch(workers)

def unprefetched():
    return grain.MapDataset.range(64).map(lambda number: number + 1).to_iter_dataset(alone)
"""

CODE = "float(metrics[name]) [/x] items[:x:] [bold]"
WARNING = LintFinding("no-prefetch", "warning", (0,), CODE, CODE, CODE, CODE)
ERROR = LintFinding("shuffle-after-batch", "error", (), "shuffles whole batches", "shuffle first")
TRIAL = {"rule": "no-prefetch", "message": "2.00 times as fast"}


@pytest.fixture
def pipelines(tmp_path: Path) -> str:
    """Return a file whose functions make loaders."""
    path = tmp_path / "pipelines_for_lint.py"
    path.write_text(PIPELINES)
    return str(path)


@dataclass
class Linted:
    """A fake session that records its requests."""

    findings: tuple[LintFinding, ...] = ()
    silenced: tuple[SilencedFinding, ...] = ()
    trials: tuple[dict[str, Any], ...] = ()
    requests: list[LintRequest] = field(default_factory=list)

    def __call__(self, _: object, request: LintRequest, **__: object) -> dict[str, Any]:
        """Return the document of a pipeline of one node."""
        self.requests.append(request)
        graph = Graph((Node(0, "Source", {"source": "mine.Probes"}, (), False),))
        report = LintReport(request.intent, "0.2.18", graph, self.findings, self.silenced)
        return {**report.to_document(), "trials": list(self.trials)}


@pytest.fixture
def linted(monkeypatch: pytest.MonkeyPatch) -> Linted:
    """Replace the session by one that finds nothing."""
    stand_in = Linted()
    monkeypatch.setattr(parent, "run_session", stand_in)
    return stand_in


@pytest.mark.usefixtures("sessions_here")
def test_an_error_fails(netpipe: Netpipe, pipelines: str) -> None:
    """A batch after mp_prefetch is an error for throughput: exit code 1."""
    result = netpipe("lint", f"{pipelines}:disordered", "--json")
    found = document(result, "lint.1.json")
    assert result.exit_code == 1
    assert "batch-after-mp-prefetch" in [finding["rule"] for finding in found["findings"]]
    assert {node["made_at"].rpartition(":")[0] for node in found["graph"]} >= {pipelines}


@pytest.mark.usefixtures("sessions_here")
def test_a_call_that_grain_does_not_have_is_answered(netpipe: Netpipe, pipelines: str) -> None:
    """The error says what to write and shows the line of the call: exit code 2."""
    result = netpipe("lint", f"{pipelines}:unreachable")
    assert result.exit_code == 2
    first, frame = result.stderr.splitlines()[-3:-1]
    assert re.search("^netpipe: Attri.* 'mp_prefetch'; write .to_iter_dataset", first)
    assert f'{pipelines}", line 20, in unreachable' in frame


@pytest.mark.usefixtures("sessions_here")
def test_a_correct_pipeline_passes(netpipe: Netpipe, pipelines: str) -> None:
    """A correct pipeline is drawn and ends with exit code 0."""
    result = netpipe("lint", f"{pipelines}:ordered")
    assert result.exit_code == 0, result.stdout
    assert "1 worker process" in result.stdout
    assert "no findings" in result.stdout


@pytest.mark.usefixtures("sessions_here")
def test_prove_tests_what_the_structure_does_not_decide(netpipe: Netpipe, pipelines: str) -> None:
    """With --prove, the first batches are compared without and with workers."""
    target = f"{pipelines}:filtered"
    result = netpipe(
        "lint", target, "--intent", "reproducible", "--prove", "--budget", 300, "--json"
    )
    proofs = {each["rule"]: each["proof"] for each in document(result, "lint.1.json")["findings"]}
    assert result.exit_code == 1
    # On a single core, two workers are a finding too.
    assert proofs.keys() - {"too-many-workers"} == {"worker-count-changes-order"}
    assert proofs["worker-count-changes-order"].startswith("proven: batch ")


@pytest.mark.usefixtures("sessions_here")
def test_try_reports_a_trial(netpipe: Netpipe, pipelines: str) -> None:
    """The document has a trial, whatever the result on a busy machine."""
    result = netpipe("lint", f"{pipelines}:unprefetched", "--try", "--budget", 3, "--json")
    trials = document(result, "lint.1.json")["trials"]
    assert "no-prefetch" in [trial["rule"] for trial in trials]


def test_code_is_printed_as_it_is(netpipe: Netpipe, linted: Linted) -> None:
    """Brackets and colons in user code are printed literally."""
    linted.findings = (WARNING,)
    result = netpipe("lint", "a:b")
    assert result.exit_code == 0, result.output
    assert result.stdout.count(CODE) == 4


def test_findings_silences_and_trials_are_printed(netpipe: Netpipe, linted: Linted) -> None:
    """Silenced findings show their reason; an error fails the command."""
    linted.findings, linted.trials = (ERROR,), (TRIAL,)
    reason = "a slow step"
    linted.silenced = (SilencedFinding(**vars(WARNING), reason=reason),)
    result = netpipe("lint", "a:b")
    assert result.exit_code == 1
    assert f"error {ERROR.rule}: {ERROR.message}" in result.stdout
    assert f"silenced: {WARNING.rule}: {reason}" in result.stdout
    assert f"tried: {TRIAL['rule']}: {TRIAL['message']}" in result.stdout


def test_pyproject_sets_the_intent_and_the_silences(
    netpipe: Netpipe, linted: Linted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The nearest pyproject.toml counts; a flag overrides it."""
    (tmp_path / "pyproject.toml").write_text(
        '[tool.netpipe.lint]\nintent = "reproducible"\nsilence = {no-prefetch = "tiny"}\n'
    )
    monkeypatch.chdir(tmp_path)
    netpipe("lint", "a:b")
    netpipe("lint", "a:b", "--intent", "throughput", "--prove", "--try", "--budget", "7")
    first, second = linted.requests
    assert (first.intent, first.silences) == ("reproducible", {"no-prefetch": "tiny"})
    assert (first.proves, first.tries, first.budget_s) == (False, False, 20)
    assert second.intent == "throughput"
    assert (second.proves, second.tries, second.budget_s) == (True, True, 7)


def test_a_wrong_setting_is_misuse(
    netpipe: Netpipe, linted: Linted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command ends before anything is read, with the file named."""
    (tmp_path / "pyproject.toml").write_text("[tool.netpipe.lint]\nsilence = 1\n")
    monkeypatch.chdir(tmp_path)
    result = netpipe("lint", "a:b")
    assert result.exit_code == 2
    assert f"{tmp_path / 'pyproject.toml'}: tool.netpipe.lint.silence" in result.stderr
    assert not linted.requests


def test_the_picture_is_a_file(netpipe: Netpipe, linted: Linted, tmp_path: Path) -> None:
    """--svg writes a whole SVG, beside JSON too."""
    linted.findings = (WARNING,)
    result = netpipe("lint", "a:b", "--svg", tmp_path / "pipeline.svg", "--json")
    assert document(result, "lint.1.json")["findings"]
    assert ElementTree.parse(tmp_path / "pipeline.svg").getroot().tag.endswith("svg")


def test_a_picture_that_cannot_be_written_is_misuse(
    netpipe: Netpipe, linted: Linted, tmp_path: Path
) -> None:
    """The option and the file are named, before anything is read."""
    result = netpipe("lint", "a:b", "--svg", tmp_path / "absent" / "pipeline.svg")
    assert result.exit_code == 2
    assert re.search(r"pipeline\.svg: --svg .* No such", result.stderr)
    assert result.stdout == ""
    assert not linted.requests


def test_experiments_extend_the_time_limit(netpipe: Netpipe, linted: Linted) -> None:
    """A trial and a proof may take their budgets beyond the limit of the start."""
    netpipe("lint", "a:b", "--try", "--prove", "--budget", 25, "--start-limit", 200)
    assert linted.requests[0].limit_s == 295
