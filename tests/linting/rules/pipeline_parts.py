"""Parts of the example pipelines: tiny data, and user functions that process them."""

import atexit
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

import grain
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LENGTH: Final = 16
PAD: Final = 0
TEXTS: Final = [("grain " * (1 + n % 5) + str(n)).encode() for n in range(40)]
IMAGES: Final = [{"image": np.full((8, 8, 3), n, np.uint8), "label": n} for n in range(24)]

UNTHREADED: Final = grain.ReadOptions(num_threads=0)
FEW_AHEAD: Final = grain.ReadOptions(num_threads=4, prefetch_buffer_size=4)
TWO_WORKERS: Final = grain.MultiprocessingOptions(num_workers=2, per_worker_buffer_size=2)

THROUGHPUT: Final = ("throughput",)
REPRODUCIBLE: Final = ("reproducible",)
BOTH: Final = ("throughput", "reproducible")

# The authors use threads. Without them, none of these pipelines was slower, and most were faster.
THREADS_READ_ELEMENTS: Final = {
    "threads-in-training-process": "their sources are in memory: threads only cost here"
}

Tokens = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class CorrectPipeline:
    """A pipeline without a mistake.

    Attributes:
        name: Its name in test reports.
        style_of: The origin of its style: a URL, or a repository and a path in it.
        intents: The intents for which it is right.
        build: Makes a new one.
        expected_warnings: Rules that warn nevertheless, each with the reason.
    """

    name: str
    style_of: str
    intents: tuple[str, ...]
    build: Callable[[], Any]
    expected_warnings: Mapping[str, str] = field(default_factory=dict)


CORRECT: Final[list[CorrectPipeline]] = []


def correct(
    style_of: str, intents: tuple[str, ...], expected_warnings: Mapping[str, str] | None = None
) -> Callable[[Callable[[], Any]], CorrectPipeline]:
    """Add the pipeline that a function builds to the correct ones."""

    def of(build: Callable[[], Any]) -> CorrectPipeline:
        name, warnings = build.__name__, expected_warnings or {}
        pipeline = CorrectPipeline(name, style_of, intents, build, warnings)
        CORRECT.append(pipeline)
        return pipeline

    return of


# ---- Files


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp()
    atexit.register(rmtree, folder)
    return Path(folder)


@cache
def parquet_files() -> list[str]:
    """Four files of ten texts each, one row group a file."""
    paths = [_folder() / f"{n}.parquet" for n in range(4)]
    for n, path in enumerate(paths):
        pq.write_table(pa.table({"text": TEXTS[10 * n : 10 * n + 10]}), path)
    return [str(path) for path in paths]


# ---- Text


def tokens_of(text: bytes) -> np.ndarray[Any, Any]:
    """Byte values as tokens: int32 (at most LENGTH,)."""
    return np.frombuffer(text, np.uint8).astype(np.int32)[:LENGTH]


def tokenize(text: bytes) -> Tokens:
    """Inputs and targets of one text, not yet padded."""
    return {"inputs": tokens_of(text), "targets": tokens_of(text)}


def text_of(row: dict[str, Any]) -> bytes:
    """The text of a parquet row."""
    text: bytes = row["text"]
    return text


def padded(example: Tokens) -> Tokens:
    """Every feature as int32 (LENGTH,)."""
    return {k: np.pad(v, (0, LENGTH - len(v)), constant_values=PAD) for k, v in example.items()}


def shifted(batch: Tokens) -> Tokens:
    """Inputs shifted one to the right, for teacher forcing: int32 (batch, LENGTH)."""
    return batch | {"inputs": np.roll(batch["inputs"], 1, axis=-1)}


def only_inputs(example: Tokens) -> Tokens:
    """Remove the features that packing adds."""
    return {"inputs": example["inputs"], "targets": example["targets"]}


def is_short(text: bytes) -> bool:
    """Whether no token would be cut off."""
    return len(text) <= LENGTH


class Halves(grain.experimental.FlatMapTransform):  # type: ignore[misc]  # Grain is seen without its types
    """Cut a text in two."""

    max_fan_out = 2

    def flat_map(self, element: bytes) -> list[bytes]:
        """The first eight bytes, and the rest if there is one."""
        return [part for part in (element[:8], element[8:]) if part]


# ---- Images


def scaled(example: dict[str, Any]) -> dict[str, Any]:
    """The image as float32 (8, 8, 3) in 0..1."""
    return example | {"image": example["image"].astype(np.float32) / 255}


class Flip(grain.transforms.RandomMap):  # type: ignore[misc]  # as above
    """Mirror every other image."""

    def random_map(self, element: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        """Mirror it, or not."""
        return element | {"image": element["image"][:, :: 1 if rng.integers(2) else -1]}


class Tokenize(grain.transforms.Map):  # type: ignore[misc]  # as above
    """The transform that DataLoader operations are made of."""

    def map(self, element: bytes) -> Tokens:
        """Inputs and targets, padded."""
        return padded(tokenize(element))


class Short(grain.transforms.Filter):  # type: ignore[misc]  # as above
    """Keep texts that need no cut."""

    def filter(self, element: bytes) -> bool:
        """Whether it is short."""
        return is_short(element)
