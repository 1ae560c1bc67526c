"""The pipelines of the zoo, and the expected answers about each."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Pipeline:
    """A pipeline in `pipelines/`, under its name.

    Attributes:
        environment: The tox environment that has its packages, without `zoo-`.
        packages: Their distributions, whose versions are reported; the first is its own.
        lint: The rules that lint reports.
        stage: Part of the diagnosed name of the stage that takes the most time.
        resources: Resources that may limit that stage, on few or many free cores.
    """

    name: str
    environment: str
    packages: tuple[str, ...]
    lint: tuple[str, ...]
    stage: str = "augment"
    resources: tuple[str, ...] = ("cpu", "gil", "memory")

    @property
    def target(self) -> str:
        """The loader's target."""
        return f"tests.zoo.pipelines.{self.name}:loader"


_NOT_GRAIN: Final = ("no-grain-graph",)
_TUTORIAL: Final = ("oversized-read-buffer", "threads-in-workers")

PIPELINES: Final = {
    each.name: each
    for each in (
        Pipeline("grain_tutorial", "grain", ("grain",), _TUTORIAL),
        Pipeline(
            "grain_data_loader",
            "grain",
            ("grain",),
            ("threads-in-workers", "worker-count-changes-order"),
        ),
        Pipeline("torch_data_loader", "torch", ("torch",), _NOT_GRAIN),
        Pipeline("hf_map_style", "huggingface", ("datasets", "torch"), _NOT_GRAIN),
        Pipeline("hf_parquet_stream", "huggingface", ("datasets", "torch"), _NOT_GRAIN),
        # Its threads call Python; the one that takes batches sees one call.
        Pipeline("tf_data", "tensorflow", ("tensorflow-cpu",), _NOT_GRAIN, "iterator_get_next"),
        Pipeline(
            "tfds_source", "tensorflow", ("tensorflow-datasets", "grain"), _TUTORIAL, "transform"
        ),
        Pipeline("webdataset_tar", "webdataset", ("webdataset", "torch"), _NOT_GRAIN),
        Pipeline(
            "kauldron_py",
            "kauldron",
            ("kauldron", "grain"),
            (*_NOT_GRAIN, "worker-count-changes-order"),
        ),
    )
}
