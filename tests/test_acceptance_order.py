"""Each disorder of this repository's pipeline fails its performance tests."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from runpy import run_path

import pytest

from netpipe.errors import PipelineOrderError
from netpipe.jobs.targets import Factories
from netpipe.linting.lint_job import lint_loader
from netpipe.linting.lint_request import LintRequest
from netpipe.workload import pipeline
from netpipe.workload.config import PipelineConfig
from perf_tests.test_order import test_order as fail_of_disorder
from tests.root_project import copied_project, perf_tests_of, put_in
from tests.workload.conftest import many as many

SOURCE = "        grain.MapDataset.source(order)\n        .map(partial(read_block, source))\n"
BATCH = "        .batch(config.batch_size // sequences, batch_fn=concatenate)\n"
PAIRS = ".batch(2, drop_remainder=True, batch_fn=concatenate)"
TO_ITER = "to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))\n"
WORKERS = "    return sequences.mp_prefetch(workers, _freeze_imports).map(make_batch)\n"


@dataclass(frozen=True)
class Disorder:
    """A wrong order of the pipeline.

    Attributes:
        rule: The rule that it breaks.
        changes: Texts in pipeline.py and their replacements.
        intent: The intent of the lint.
    """

    rule: str
    changes: Mapping[str, str]
    intent: str = "throughput"

    def put_in(self, path: Path) -> None:
        """Change a pipeline.py."""
        for right, wrong in self.changes.items():
            put_in(path, right, wrong)


DISORDERS = [
    Disorder(
        "batch-after-mp-prefetch",
        {
            BATCH: "",
            WORKERS: WORKERS.replace(".map", ".batch(1, batch_fn=concatenate).map"),
        },
    ),
    Disorder("map-after-mp-prefetch", {WORKERS: WORKERS.rstrip() + ".map(dict)\n"}),
    Disorder(
        "nested-mp-prefetch",
        {WORKERS: WORKERS.rstrip() + ".mp_prefetch(grain.MultiprocessingOptions(2))\n"},
    ),
    Disorder(
        "device-put-before-mp-prefetch",
        {
            "import grain\n": "import grain\nimport jax\n",
            TO_ITER: TO_ITER.rstrip() + ".map(jax.device_put)\n",
        },
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
            WORKERS: WORKERS.replace("_imports)", "_imports, sequential_slice=True)"),
        },
        intent="reproducible",
    ),
]


@pytest.mark.parametrize("disorder", DISORDERS, ids=lambda disorder: disorder.rule)
def test_each_disorder_fails_with_its_rule(disorder: Disorder, many: Path, tmp_path: Path) -> None:
    """The test of the order fails for every pipeline, and its message names the broken rule."""
    path = tmp_path / "pipeline.py"
    path.write_text(Path(pipeline.__file__).read_text())
    disorder.put_in(path)
    loader = partial(run_path(str(path))["build"], many, PipelineConfig(epochs=1))
    request = LintRequest(result=str(tmp_path / "result.json"), intent=disorder.intent)
    found = lint_loader(request, Factories(loader), ExitStack())
    with pytest.raises(PipelineOrderError, match=f"order: {disorder.rule}:"):
        fail_of_disorder(found["lint"])


def test_a_disorder_fails_the_performance_tests(tmp_path: Path) -> None:
    """A changed pipeline fails the suite with its rule."""
    [disorder] = [each for each in DISORDERS if each.rule == "worker-count-changes-order"]
    project = copied_project(tmp_path)
    disorder.put_in(project / "netpipe" / "workload" / "pipeline.py")
    test, intent = "perf_tests/test_order.py::test_order", f"--netpipe-intent={disorder.intent}"
    suite = perf_tests_of(project, test, intent)
    assert suite.returncode == pytest.ExitCode.TESTS_FAILED, suite.stdout
    assert "1 failed" in suite.stdout
    failure = suite.stdout.partition("short test summary info")[2]
    assert f"order: {disorder.rule}:" in failure
