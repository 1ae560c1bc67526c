"""Pipelines for the tests of the rules, and shorthands for their findings."""

from collections.abc import Callable
from typing import Any, Final

import grain

from netpipe.grain_access.source_lines import record_source_lines
from netpipe.linting.linter import LintReport, lint
from netpipe.linting.rules.finding import LintFinding

NO_THREADS: Final = grain.ReadOptions(num_threads=0, prefetch_buffer_size=1)


class Unreadable:
    """A source whose elements must not be read.

    Args:
        length: How many there are.
    """

    def __init__(self, length: int = 8) -> None:
        self._length = length

    def __len__(self) -> int:
        """Return a number of elements."""
        return self._length

    def __getitem__(self, index: int) -> int:
        """Fail the test."""
        raise AssertionError(f"element {index} was read")


class OneToThree(grain.experimental.FlatMapTransform):  # type: ignore[misc]  # no types
    """Return an element as often as its remainder says."""

    max_fan_out = 3

    def flat_map(self, element: int) -> list[int]:
        """The element, one to three times."""
        return [element] * (element % 3 + 1)


def increment(element: int) -> int:
    """Return the element's successor."""
    return element + 1


def with_rng(element: int, rng: Any) -> int:
    """Return the element plus a random bit."""
    return element + int(rng.integers(2))


def source(length: int = 8) -> Any:
    """A MapDataset of `length` elements."""
    return grain.MapDataset.source(Unreadable(length))


def elements(length: int = 8) -> Any:
    """An IterDataset that reads without threads."""
    return source(length).to_iter_dataset(NO_THREADS)


def numbers(length: int = 22) -> Any:
    """A MapDataset that can be read."""
    return grain.MapDataset.range(length)


def stream(length: int = 22) -> Any:
    """An IterDataset that can be read, without threads."""
    return numbers(length).to_iter_dataset(NO_THREADS)


def in_workers(dataset: Any, workers: int = 2, **settings: Any) -> Any:
    """The dataset behind mp_prefetch."""
    return dataset.mp_prefetch(grain.MultiprocessingOptions(workers), **settings)


def loader(*operations: Any, workers: int, read_options: Any = NO_THREADS, **sampler: Any) -> Any:
    """A DataLoader over 22 elements, which reads without threads by default."""
    settings = {"num_records": 22, "shard_options": grain.sharding.NoSharding(), "seed": 0}
    return grain.DataLoader(
        data_source=Unreadable(22),
        sampler=grain.samplers.IndexSampler(**settings | sampler),
        operations=operations,
        worker_count=workers,
        read_options=read_options,
    )


def severities(dataset: Any, intent: str = "throughput") -> dict[str, str]:
    """The severity of every rule that was broken."""
    return {finding.rule: finding.severity for finding in lint(dataset, intent).findings}


def by_intent(dataset: Any, rule: str) -> tuple[str | None, str | None]:
    """The severity of one rule for throughput and for reproducible; None without a finding."""
    return severities(dataset).get(rule), severities(dataset, "reproducible").get(rule)


def only(rule: str, report: LintReport) -> LintFinding:
    """The only finding of a rule."""
    (finding,) = (finding for finding in report.findings if finding.rule == rule)
    return finding


def kinds_of(finding: LintFinding, report: LintReport) -> list[str]:
    """The kinds of a finding's nodes."""
    return [report.graph.nodes[number].kind for number in finding.nodes]


def lint_factory(
    factory: Callable[[], Any], intent: str = "throughput", **settings: Any
) -> LintReport:
    """Lint what a factory makes, with a recording of its source lines."""
    with record_source_lines() as recording:
        dataset = factory()
    return lint(dataset, intent, recording=recording, **settings)
