"""netpipe's answers about upstream pipelines agree with a plain loop."""

from pathlib import Path
from typing import Any

import pytest

from netpipe.verdict.kinds import HEALTHY_KINDS, VerdictKind
from perf_tests.studies.children import run_for_json
from perf_tests.studies.records import append_record
from tests.zoo.__main__ import latest_trials, write_table
from tests.zoo.catalogue import PIPELINES, Pipeline
from tests.zoo.trial import Trial, try_pipeline

DOCUMENT = Path(__file__).parent / "README.md"
SECONDS = 8.0


@pytest.fixture(params=list(PIPELINES.values()), ids=list(PIPELINES))
def pipeline(request: Any) -> Pipeline:
    """Each pipeline of the given tox environment; none without one."""
    asked: Pipeline = request.param
    if f"zoo-{asked.environment}" != request.config.getoption("--zoo"):
        pytest.skip(f"only in tox -e zoo-{asked.environment}")
    return asked


def test_what_netpipe_says_is_true(pipeline: Pipeline, request: Any) -> None:
    """Rules, verdicts and bottleneck are as expected, and agree with a plain loop.

    An open verdict, for example on a busy machine, skips the test.
    """
    trial = try_pipeline(pipeline, SECONDS)
    if keep := request.config.getoption("--zoo-keep"):
        append_record(Path(keep), trial)
    check(trial)
    if not trial.is_decided:
        pytest.skip(f"a verdict was left open: {trial}")


def check(trial: Trial) -> None:
    """Compare a trial with the expected answers and with the measurements without netpipe."""
    pipeline = PIPELINES[trial.pipeline]
    assert trial.lint == pipeline.lint
    assert trial.starved in (VerdictKind.LOADER_BOUND, VerdictKind.INCONCLUSIVE)
    assert trial.fed in (*HEALTHY_KINDS, VerdictKind.INCONCLUSIVE)
    # CPU time hardly depends on other programs.
    assert 1 / 3 < trial.load_cpu_s_per_batch / trial.plain_cpu_s_per_batch < 3
    assert trial.augment_share > 0.5
    assert pipeline.stage in trial.stage.lower()
    assert trial.resource in (*pipeline.resources, "unknown")


@pytest.mark.parametrize("name", ["grain_tutorial", "grain_data_loader"])
def test_grains_own_pipelines_are_read(name: str) -> None:
    """The two pipelines that need only Grain are linted in every test run."""
    pipeline = PIPELINES[name]
    found = run_for_json(["-m", "netpipe", "lint", pipeline.target, "--json"], {}, 120.0)
    assert tuple(sorted({each["rule"] for each in found["findings"]})) == pipeline.lint


def test_the_table_is_that_of_the_kept_trials() -> None:
    """tests/zoo/README.md shows the latest trial of each pipeline, each as expected."""
    trials = latest_trials()
    assert trials.keys() == PIPELINES.keys()
    for trial in trials.values():
        check(trial)
    shown = DOCUMENT.read_text()
    assert write_table(trials.values()) in shown
