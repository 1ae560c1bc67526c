"""Each disorder of this repository's pipeline fails its performance tests."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.root_project import copied_project, perf_tests_of, put_in

SOURCE = "        grain.MapDataset.source(order)\n        .map(partial(read_block, source))\n"
BATCH = "        .batch(config.batch_size // sequences, batch_fn=concatenate)\n"
PAIRS = ".batch(2, drop_remainder=True, batch_fn=concatenate)"
TO_ITER = "to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))\n"
WORKERS = "    return sequences.mp_prefetch(workers).map(make_batch)\n"


@dataclass(frozen=True)
class Disorder:
    """A wrong order of the pipeline.

    Attributes:
        rule: The rule that it breaks.
        changes: Texts in pipeline.py and their replacements.
        intent: The intent of the lint.
        in_place: Whether the suite's own test lints the changed pipeline itself.
    """

    rule: str
    changes: Mapping[str, str]
    intent: str = "throughput"
    in_place: bool = False

    @property
    def module(self) -> str:
        """The name of the pipeline's module."""
        return "pipeline" if self.in_place else f"disorder_{self.rule.replace('-', '_')}"

    @property
    def test(self) -> str:
        """The name of the test of its order."""
        return "test_order" if self.in_place else f"test_{self.module}"

    def is_told_in(self, said: Mapping[str, str]) -> bool:
        """Whether the test of this pipeline failed with the rule."""
        return f"order: {self.rule}:" in said[f"perf_tests.{self.test}"]


DISORDERS = [
    Disorder(
        "batch-after-mp-prefetch",
        {
            BATCH: "",
            WORKERS: WORKERS.replace(".map", ".batch(1, batch_fn=concatenate).map"),
        },
        in_place=True,
    ),
    Disorder("map-after-mp-prefetch", {WORKERS: WORKERS.rstrip() + ".map(dict)\n"}),
    Disorder(
        "nested-mp-prefetch",
        {WORKERS: WORKERS.rstrip() + ".mp_prefetch(grain.MultiprocessingOptions(2))\n"},
    ),
    Disorder(
        "device-put-before-mp-prefetch",
        {TO_ITER: TO_ITER.rstrip() + ".map(lambda batch: __import__('jax').device_put(batch))\n"},
    ),
    Disorder("shuffle-after-batch", {BATCH: BATCH + "        .shuffle(seed=1)\n"}),
    Disorder(
        "batch-in-workers-loses-data",
        {BATCH: "        [:6]\n", TO_ITER: f"{TO_ITER.rstrip()}{PAIRS}\n"},
    ),
    Disorder(
        "cannot-be-pickled",
        {SOURCE: SOURCE + "        .map(__import__('threading').Lock().__enter__)\n"},
    ),
    Disorder(
        "worker-count-changes-order",
        {TO_ITER: TO_ITER.rstrip() + ".filter(lambda batch: batch is not None)\n"},
        intent="reproducible",
    ),
    Disorder(
        "sequential-slice-with-shuffle",
        {
            SOURCE: SOURCE + "        .shuffle(seed=1)\n",
            WORKERS: WORKERS.replace("(workers)", "(workers, sequential_slice=True)"),
        },
        intent="reproducible",
    ),
]

# The suite's own test of the order, on a pipeline beside the real one.
TEST = """
import pytest
from netpipe.workload.config import PipelineConfig
from netpipe.workload.NAME import build
from perf_tests.test_order import test_order

@pytest.fixture
def netpipe_loader(data_directory):
    return lambda: build(data_directory, PipelineConfig(epochs=1))
"""


@pytest.fixture(params=["throughput", "reproducible"])
def intent(request: pytest.FixtureRequest) -> str:
    """The intent of the lint."""
    chosen: str = request.param
    return chosen


@pytest.fixture
def disordered(tmp_path: Path, intent: str) -> Path:
    """A copy of this repository with a pipeline for each disorder of the intent."""
    project = copied_project(tmp_path)
    data = project / "netpipe" / "workload"
    in_order = (data / "pipeline.py").read_text()
    for disorder in of_intent(intent):
        path = data / f"{disorder.module}.py"
        path.write_text(in_order)
        for right, wrong in disorder.changes.items():
            put_in(path, right, wrong)
        if not disorder.in_place:
            test = project / "perf_tests" / f"{disorder.test}.py"
            test.write_text(TEST.replace("NAME", disorder.module))
    return project


def test_each_disorder_fails_with_its_rule(disordered: Path, intent: str) -> None:
    """Every pipeline fails, and the message names the rule that it breaks."""
    tests = [f"perf_tests/{disorder.test}.py::test_order" for disorder in of_intent(intent)]
    suite = perf_tests_of(disordered, *tests, f"--netpipe-intent={intent}", "--junitxml=run.xml")
    assert suite.returncode == pytest.ExitCode.TESTS_FAILED, suite.stdout
    cases = ElementTree.parse(disordered / "run.xml").iter("testcase")
    said = {str(case.get("classname")): "".join(case.itertext()) for case in cases}
    failed = {disorder.rule: disorder.is_told_in(said) for disorder in of_intent(intent)}
    assert failed == dict.fromkeys(failed, True), suite.stdout


def of_intent(intent: str) -> list[Disorder]:
    """Return the disorders that are errors for an intent."""
    return [disorder for disorder in DISORDERS if disorder.intent == intent]
