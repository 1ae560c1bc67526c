"""What a run counts, and the figures computed from it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

import numpy as np

from netpipe.results.measurement import Interval
from netpipe.results.statistics import median_interval, ratio_interval

BY_SEGMENTATION: Final = "those whose inputs_segmentation is above 0"
BY_ELEMENTS: Final = "all elements of a batch's first leaf, padding too"

_SEGMENTATION: Final = "inputs_segmentation"


@dataclass(frozen=True)
class Counted:
    """The tokens of one batch, and its token positions, padding included (`slots`)."""

    examples: int
    tokens: int
    slots: int
    rule: str

    @property
    def padding_fraction(self) -> float:
        """The fraction of the positions that is padding; 0 for a batch without positions."""
        return 1 - self.tokens / self.slots if self.slots else 0.0


def count_tokens(batch: object) -> Counted:
    """Count by `inputs_segmentation` where a batch has it; else every element is a token."""
    if isinstance(batch, Mapping) and _SEGMENTATION in batch:
        segmentation = np.asarray(batch[_SEGMENTATION])
        tokens = int(np.count_nonzero(segmentation > 0))
        return Counted(_rows(segmentation), tokens, segmentation.size, BY_SEGMENTATION)
    leaf: Any = batch
    while isinstance(leaf, Mapping | list | tuple) and len(leaf):
        leaf = next(iter(leaf.values() if isinstance(leaf, Mapping) else leaf))
    elements = prod(np.shape(leaf))
    return Counted(_rows(leaf), elements, elements, BY_ELEMENTS)


def _rows(array: Any) -> int:
    shape = np.shape(array)
    return shape[0] if shape else 1


def describe_arrays(batch: object) -> dict[str, str]:
    """Return dtype and shape of each array of a batch by name: `{"inputs": "int32[128,1024]"}`."""
    return {name: _describe(leaf) for name, leaf in _name_arrays(batch, "the batch")}


def _describe(leaf: object) -> str:
    # torch's types have the names of NumPy's.
    dtype = str(getattr(leaf, "dtype", type(leaf).__name__)).removeprefix("torch.")
    return f"{dtype}[{','.join(map(str, getattr(leaf, 'shape', ())))}]"


def size_in_bytes(batch: object) -> int:
    """Return the bytes of all arrays of a batch; a leaf that is none counts 0."""
    return sum(int(getattr(leaf, "nbytes", 0)) for _, leaf in _name_arrays(batch, ""))


def _name_arrays(batch: object, name: str) -> Iterator[tuple[str, object]]:
    if isinstance(batch, Mapping):
        parts: Iterable[tuple[Any, Any]] = sorted(batch.items(), key=lambda item: str(item[0]))
    elif isinstance(batch, list | tuple):
        parts = enumerate(batch)
    else:
        yield name, batch
        return
    prefix = "" if name == "the batch" else f"{name}."
    for key, part in parts:
        yield from _name_arrays(part, f"{prefix}{key}")


def most_behind(arrivals_s: Sequence[float]) -> float:
    """Return how many batches a buffer must hold to hide a loader's pauses.

    Args:
        arrivals_s: The seconds after which each batch came, of a loader that nothing stops.

    Returns:
        The most batches by which it ever fell behind its mean pace after it was ahead of it: 1 if
        they come evenly. A step that takes a batch at that pace then never waits for one.
    """
    pace_s = arrivals_s[-1] / len(arrivals_s)
    behind = ahead = 0.0
    for before, arrival_s in enumerate(arrivals_s):
        wanted = arrival_s / pace_s
        behind = max(behind, ahead + wanted - before)
        ahead = max(ahead, before + 1 - wanted)
    return behind


@dataclass(frozen=True)
class Tally:
    """What a run counted in its steady state; see `netpipe/schemas/throughput.1.json`."""

    wall_s: float
    cpu_s: float
    batches: int
    examples: int
    tokens: int
    slots: int
    worst_padding_fraction: float
    bytes_read: int
    peak_pss_bytes: int
    peak_rss_bytes: int
    first_batch_s: float
    counted_by: str
    batch_bytes: int
    behind_batches: float


FIGURES: Final[Mapping[str, Callable[[Tally], float]]] = {
    "tokens_per_s": lambda run: run.tokens / run.wall_s,
    "tokens_per_cpu_s": lambda run: run.tokens / run.cpu_s,
    "examples_per_s": lambda run: run.examples / run.wall_s,
    "examples_per_cpu_s": lambda run: run.examples / run.cpu_s,
    "batches_per_s": lambda run: run.batches / run.wall_s,
    "padding_fraction": lambda run: 1 - run.tokens / run.slots,
    "padding_fraction_worst_batch": lambda run: run.worst_padding_fraction,
    "bytes_read_per_token": lambda run: run.bytes_read / run.tokens,
    "peak_pss_bytes": lambda run: run.peak_pss_bytes,
    "peak_rss_bytes": lambda run: run.peak_rss_bytes,
    "first_batch_s": lambda run: run.first_batch_s,
}


def speed_figure(runs: Sequence[Tally]) -> str:
    """Return the name of the figure that tells a speed: of tokens if batches say what is one."""
    return "tokens_per_s" if runs[0].counted_by == BY_SEGMENTATION else "examples_per_s"


def over_rounds(name: str, runs: Sequence[Tally]) -> Interval:
    """Return a figure's median over the runs, at least one, with its 95% interval."""
    interval = median_interval([FIGURES[name](run) for run in runs])
    return replace(interval, low=max(0.0, interval.low))  # none of them can be less


def ratio(name: str, ours: Sequence[Tally], theirs: Sequence[Tally]) -> Interval | None:
    """Return a figure over another loader's of the same rounds; None where theirs is 0."""
    over, under = ([FIGURES[name](run) for run in runs] for runs in (ours, theirs))
    return ratio_interval(over, under) if all(under) else None
