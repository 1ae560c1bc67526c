"""The picture of a pipeline in the terminal."""

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO, TextIOWrapper
from typing import Any

import grain
import pytest
from rich.cells import cell_len
from rich.console import Console

from netpipe.grain_access.nodes import Graph, Node
from netpipe.linting.linter import LintReport
from netpipe.reporting.picture.drawing import draw_svg
from netpipe.reporting.picture.terminal import TextPicture
from netpipe.reporting.picture.visible_graph import NO_GRAPH
from tests.reporting.picture.pictured import (
    PIPELINES,
    diamond,
    findings_of_all_severities,
    in_workers,
    nested_workers,
    read,
    report_on,
    shared_by_workers,
    source,
    straight,
    tokenize,
)


def printed(report: LintReport, width: int = 100, encoding: str = "utf-8", **looks: Any) -> str:
    """Print a picture on a console of a width and an encoding, after an empty line."""
    out = BytesIO()
    file = TextIOWrapper(out, encoding=encoding)
    console = Console(file=file, width=width, legacy_windows=False, _environ={}, **looks)
    console.print(TextPicture(report))
    file.flush()
    return "\n" + out.getvalue().decode(encoding)


def test_a_pipeline_reads_as_it_was_written() -> None:
    """Calls from the source to the trainer, workers in a box, findings at their calls."""
    assert (
        printed(report_on(straight(), findings_of_all_severities()))
        == """
╭─ 2 worker processes ─────────────────────────────────────────────────────────────────────────────╮
│ source Probes, 1,000 elements                                                       loader.py:12 │
│ .shuffle(seed 1)                                                                    loader.py:13 │
│ .map(tokenize)                                                                      loader.py:14 │
│ .to_iter_dataset(16 threads, buffer 500)   ! threads-in-workers   i large-capture   loader.py:15 │
│ .batch(32, drop_remainder)                                                          loader.py:16 │
╰─ training process ───────────────────────────────────────────────────────────────────────────────╯
  .mp_prefetch(2 workers, buffer 1)   ✗ map-after-mp-prefetch
  .filter(is_long)   ✗ map-after-mp-prefetch                                          loader.py:18
  ▼ trainer
"""
    )


@pytest.mark.parametrize("pipeline", [diamond, shared_by_workers])
def test_a_shared_call_is_drawn_once(pipeline: Callable[[], Any]) -> None:
    """A shared call has a number, which the second branch or box refers to."""
    text = printed(report_on(pipeline()))
    assert text.count("source Probes") == 1
    assert text.count(".map(tokenize) #1") == 2
    assert text.count(".map(tokenize) #1, as") == 1


def test_ascii_where_the_console_has_no_more() -> None:
    """Boxes, brackets and signs have an ASCII form of the same width."""
    report = report_on(nested_workers(), findings_of_all_severities())
    assert (
        printed(report, encoding="ascii")
        == """
+- 2 worker processes -----------------------------------------------------------------------------+
| . +- 2 worker processes -----------------------------------------------------------------------+ |
| | | source Probes, 1,000 elements                                                 loader.py:12 | |
| | | .to_iter_dataset(0 threads)   ! threads-in-workers   i large-capture          loader.py:15 | |
| | +- 2 worker processes -----------------------------------------------------------------------+ |
| |   .mp_prefetch(2 workers, buffer 1)   x map-after-mp-prefetch                                  |
| |   .batch(3)                                                                       loader.py:16 |
| + source Probes, 1,000 elements                                                     loader.py:12 |
| | .map(tokenize)                                                                    loader.py:14 |
| | .to_iter_dataset(0 threads)   ! threads-in-workers   i large-capture              loader.py:15 |
| ` IterDataset.mix(proportions 1:1)                                                               |
+- training process -------------------------------------------------------------------------------+
  .mp_prefetch(2 workers, buffer 1)   x map-after-mp-prefetch
  v trainer
"""
    )


def test_a_narrow_console_gets_what_matters() -> None:
    """Findings go below their calls, then places are dropped, then calls are cut in the middle."""
    report = report_on(straight(), findings_of_all_severities())
    assert (
        printed(report, width=44)
        == """
╭─ 2 worker processes ─────────────────────╮
│ source Probes, 1,000 elements            │
│ .shuffle(seed 1)            loader.py:13 │
│ .map(tokenize)              loader.py:14 │
│ .to_iter_dataset(16 threads, buffer 500) │
│   ! threads-in-workers                   │
│   i large-capture                        │
│ .batch(32, drop_remainder)               │
╰─ training process ───────────────────────╯
  .mp_prefetch(2 workers, buffer 1)
    ✗ map-after-mp-prefetch
  .filter(is_long)            loader.py:18
    ✗ map-after-mp-prefetch
  ▼ trainer
"""
    )


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_no_line_is_wider_than_the_console_or_100_columns(name: str, width: int) -> None:
    """Every pipeline fits the width, and the right edges are aligned."""
    report = report_on(PIPELINES[name](), findings_of_all_severities())
    lines = printed(report, width).splitlines()
    assert max(map(cell_len, lines)) <= min(width, 100)
    assert len({cell_len(line) for line in lines if line.endswith(("╮", "╯", "│"))}) <= 1


@pytest.mark.parametrize("name", PIPELINES)
def test_every_call_is_drawn_and_marked(name: str) -> None:
    """Each node that the user wrote has its line, and each finding its mark at all of its calls."""
    report = report_on(PIPELINES[name](), findings_of_all_severities())
    text = printed(report)
    shown = [node for node in report.graph.nodes if node.kind not in ("Options", "Seed")]
    repeated = text.count(", as above")
    assert text.count("(") + text.count("source ") - repeated == len(shown)
    for finding in report.findings:
        assert text.count(finding.rule) == len(finding.nodes)


def test_a_node_added_by_grain_is_drawn_only_if_a_finding_is_about_it() -> None:
    """A finding on options is shown, although they are not a call of the order."""
    options = grain.experimental.DatasetOptions(filter_warn_threshold_ratio=0.5)
    dataset = grain.experimental.WithOptionsIterDataset(read(source()), options)
    (finding, *_) = findings_of_all_severities()
    assert "options(" not in printed(report_on(dataset))
    on_options = printed(report_on(dataset, {finding: ("Options",)}))
    assert "options(filter_warn_threshold_ratio=0.5" in on_options
    assert f"✗ {finding.rule}" in on_options


def with_name(pipeline: Any, name: str) -> LintReport:
    """A report on a pipeline whose mapped function has some name."""
    report = report_on(pipeline)
    nodes = [
        replace(node, parameters={"transform": f"m.{name}"}) if node.kind == "Map" else node
        for node in report.graph.nodes
    ]
    return replace(report, graph=replace(report.graph, nodes=tuple(nodes)))


def test_a_wide_name_keeps_the_edges_straight() -> None:
    """A character of two columns counts as two."""
    wide = with_name(in_workers(read(source().map(tokenize))), "数据" * 25)
    lines = printed(wide, 61).splitlines()
    assert {cell_len(line) for line in lines if line.endswith(("╮", "╯", "│"))} == {61}


def test_without_a_graph_there_is_one_line() -> None:
    """A pipeline without a graph gives a sentence instead of a picture."""
    assert printed(report_on([1, 2])) == f"\n{NO_GRAPH}\n"


def test_a_long_pipeline_and_a_deep_one_are_drawn() -> None:
    """Hundreds of calls in a row, or many that read the same twice, take a line each."""
    maps = [Node(number, "Map", {}, (number + 1,), in_worker=False) for number in range(600)]
    long = Graph((*maps, Node(600, "Source", {}, (), in_worker=False)))
    zips = [Node(number, "Zip", {}, (number + 1,) * 2, in_worker=False) for number in range(40)]
    deep = Graph((*zips, Node(40, "Source", {}, (), in_worker=False)))
    for graph in (long, deep):
        report = LintReport("throughput", "0", graph, ())
        assert printed(report).count("\n") >= len(graph.nodes)
        assert draw_svg(report).count("<text") >= len(graph.nodes)
