"""Nodes described as the calls that the user wrote."""

from collections.abc import Callable
from typing import Any

import grain
import pytest

from netpipe.grain_access.nodes import ENDLESS, Node
from netpipe.grain_access.reader import read_graph
from netpipe.reporting.picture.calls import describe_call
from tests.reporting.picture.pictured import read, source, tokenize


class Double(grain.transforms.Map):  # type: ignore[misc]  # grain is untyped
    """A transform object, with a method that is used as a function too."""

    def map(self, element: int) -> int:
        """Return twice the element."""
        return 2 * element

    @staticmethod
    def halve(element: int) -> int:
        """Return half the element."""
        return element // 2


@pytest.mark.parametrize(
    ("dataset", "call"),
    [
        (lambda: source(), "source Probes, 1,000 elements"),
        (lambda: grain.MapDataset.range(8), "source range(8)"),
        (lambda: grain.MapDataset.range(2, 9, 3), "source range(2, 9, 3)"),
        (lambda: source()[2:8], ".slice(2:8)"),
        (lambda: source()[0:8:2], ".slice(0:8:2)"),
        (lambda: source().shuffle(seed=7), ".shuffle(seed 7)"),
        (lambda: source().repeat(2), ".repeat(2 epochs)"),
        (lambda: source().map(tokenize), ".map(tokenize)"),
        (lambda: source().map(Double()), ".map(Double)"),
        (lambda: source().map(Double.halve), ".map(Double.halve)"),
        (lambda: source().map(lambda element: element), ".map(lambda)"),
        (lambda: source().filter(tokenize), ".filter(tokenize)"),
        (lambda: source().batch(4), ".batch(4)"),
        (lambda: source().batch(4, batch_fn=tokenize), ".batch(4, batch_fn=tokenize)"),
        (lambda: source().batch(4, drop_remainder=True), ".batch(4, drop_remainder)"),
        (lambda: read(source()), ".to_iter_dataset(0 threads)"),
        (
            lambda: grain.MapDataset.concatenate([source()] * 2),
            "MapDataset.concatenate(2 datasets)",
        ),
        (
            lambda: grain.IterDataset.mix([read(source())] * 3, [1, 1, 2]),
            "IterDataset.mix(proportions 1:1:2)",
        ),
        (
            lambda: grain.experimental.WindowShuffleIterDataset(
                read(source()), window_size=5, seed=1
            ),
            "WindowShuffleIterDataset(seed 1, window 5)",
        ),
        (
            lambda: grain.experimental.ThreadPrefetchIterDataset(
                read(source()), prefetch_buffer_size=2
            ),
            "ThreadPrefetchIterDataset(buffer 2)",
        ),
    ],
)
def test_a_node_reads_as_its_call(dataset: Callable[[], Any], call: str) -> None:
    """A call has only the settings that differ from Grain's defaults."""
    assert describe_call(read_graph(dataset()).nodes[0]) == call


@pytest.mark.parametrize(
    ("kind", "parameters", "call"),
    [
        (
            "ProcessPrefetch",
            {"num_workers": 1, "sequential_slice": False},
            ".mp_prefetch(1 worker)",
        ),
        (
            "ProcessPrefetch",
            {"num_workers": 2, "per_worker_buffer_size": 3, "sequential_slice": True},
            ".mp_prefetch(2 workers, buffer 3, sequential_slice)",
        ),
        ("NoWorkers", {}, ".mp_prefetch(0 workers)"),
        ("Pack", {"num_packing_bins": 2, "seed": 0}, "pack(2 bins, seed 0)"),
        ("Source", {"source": "a.Rows", "length": ENDLESS}, "source Rows, endless elements"),
        ("Slice", {"start": 0, "stop": ENDLESS, "step": 2}, ".slice(0::2)"),
        ("Unknown:Braid", {"strands": 3}, "Braid(strands=3)"),
        ("Mix", {"proportions": (0.5, 0.25)}, "IterDataset.mix(proportions (0.5, 0.25))"),
        ("Sampler", {"sampler": "grain.samplers.IndexSampler"}, "sampler IndexSampler"),
    ],
)
def test_a_node_of_any_kind_has_a_call(kind: str, parameters: dict[str, Any], call: str) -> None:
    """Each kind of node is written as a call with its settings."""
    assert describe_call(Node(0, kind, parameters, (), in_worker=False)) == call
