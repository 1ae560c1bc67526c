"""The SVG of a pipeline: its structure, and that nothing overlaps or overflows."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree as ET

import grain
import pytest
from rich.cells import cell_len

from netpipe.linting.graph.nodes import Graph
from netpipe.linting.linter import LintReport
from netpipe.linting.picture.drawing import (
    Box,
    Edge,
    Layout,
    draw_svg,
    draw_svg_graph,
    list_findings,
)
from netpipe.linting.picture.visible_graph import VisibleGraph
from netpipe.linting.rules.finding import LintFinding, SilencedFinding
from tests.linting.picture.pictured import (
    PIPELINES,
    Probes,
    findings_of_all_severities,
    mix_of_workers,
    nested_workers,
    read,
    report_on,
    shared_by_workers,
    source,
    straight,
)

SVG = "{http://www.w3.org/2000/svg}"
# The widest fonts of the style sheet take 0.62 of the font size of 12 px.
LETTER_WIDTH = 0.62 * 12

every_pipeline = pytest.mark.parametrize("name", PIPELINES)


def report_of(name: str) -> LintReport:
    """A report on a pipeline in which everything is found."""
    return report_on(PIPELINES[name](), findings_of_all_severities())


def drawn(report: LintReport) -> ET.Element:
    """The drawing, parsed."""
    return ET.fromstring(draw_svg(report))


def nodes_of(root: ET.Element) -> Mapping[int, ET.Element]:
    """The groups of the nodes by their ids; each is there once."""
    groups = [group for group in root.iter(f"{SVG}g") if "data-node" in group.attrib]
    by_id = {int(group.attrib["data-node"]): group for group in groups}
    assert len(by_id) == len(groups)
    return by_id


def rectangle(element: ET.Element) -> Box:
    """The position and size of a rect."""
    x, y, width, height = (int(element.attrib[name]) for name in ("x", "y", "width", "height"))
    return Box(x, y, width, height)


def texts(element: ET.Element) -> Iterator[ET.Element]:
    """All lines of text in an element."""
    return element.iter(f"{SVG}text")


def words(element: ET.Element) -> str:
    """All text that is shown in an element."""
    return " ".join(map(words_in, texts(element)))


def inside(inner: Box, outer: Box) -> bool:
    """Whether a rectangle lies in another one."""
    return (
        inner.x >= outer.x
        and inner.y >= outer.y
        and inner.right <= outer.right
        and inner.bottom <= outer.bottom
    )


def apart(box: Box, other: Box) -> bool:
    """Whether two rectangles have no point in common."""
    beside = box.right < other.x or other.right < box.x
    return beside or box.bottom < other.y or other.bottom < box.y


def lay_out(report: LintReport) -> Layout:
    """The layout of a drawing."""
    return Layout(VisibleGraph(report).outline)


@every_pipeline
def test_every_node_that_the_user_wrote_is_drawn_once(name: str) -> None:
    """Each box has the id of its node."""
    report = report_of(name)
    written = {node.id for node in report.graph.nodes if node.kind not in ("Options", "Seed")}
    assert set(nodes_of(drawn(report))) == written


@every_pipeline
def test_every_finding_is_named_at_its_nodes_and_in_the_list(name: str) -> None:
    """The box of each node names the rule; the list gives the message and the fix once."""
    report = report_of(name)
    root = drawn(report)
    groups = nodes_of(root)
    for finding in report.findings:
        marked = {number for number, group in groups.items() if finding.rule in words(group)}
        assert marked == set(finding.nodes)
        assert words(root).count(finding.message) == 1
        assert words(root).count(finding.fix) == 1


@every_pipeline
def test_boxes_do_not_overlap(name: str) -> None:
    """Neither do frames, unless one lies in the other."""
    layout = lay_out(report_of(name))
    assert layout.boxes
    assert all(apart(*pair) for pair in combinations(layout.boxes, 2))
    assert all(
        apart(outer, inner) or inside(inner, outer)
        for outer, inner in combinations(layout.frames, 2)
    )


@every_pipeline
def test_the_innermost_frame_is_the_process_of_a_call(name: str) -> None:
    """Calls that run in workers are in a frame of workers, all others in the training process."""
    layout = lay_out(report_of(name))
    for box in layout.boxes:
        *_, innermost = (frame for frame in layout.frames if inside(box, frame))
        in_worker = box.entry is not None and box.entry.node.in_worker
        assert (innermost.label != "training process") == in_worker


@every_pipeline
def test_everything_is_in_the_drawing(name: str) -> None:
    """Frames, boxes and edges lie between the upper left corner and the layout's size."""
    layout = lay_out(report_of(name))
    whole = Box(0, 0, layout.width, layout.height)
    assert all(inside(box, whole) for box in layout.boxes)
    assert all(inside(frame, whole) for frame in layout.frames)
    points = [Box(x, y, 0, 0) for edge in layout.edges for x, y in edge]
    assert all(inside(point, whole) for point in points)


@every_pipeline
def test_edges_lead_down_and_around_the_boxes(name: str) -> None:
    """Each ends at the top of a box and crosses none."""
    layout = lay_out(report_of(name))
    boxes = layout.boxes
    for edge in layout.edges:
        heights = [y for _, y in edge]
        assert heights == sorted(heights)
        assert any(box.y == heights[-1] and box.x < edge[-1][0] < box.right for box in boxes)
        assert not any(crosses(edge, box) for box in boxes)


def crosses(edge: Edge, box: Box) -> bool:
    """Whether an edge of horizontal and vertical lines runs through a box."""
    core = Box(box.x + 1, box.y + 1, box.width - 2, box.height - 2)
    lines = (Box(min(x0, x1), y0, abs(x1 - x0), y1 - y0) for (x0, y0), (x1, y1) in pairwise(edge))
    return not all(apart(line, core) for line in lines)


@every_pipeline
def test_every_input_has_an_edge(name: str) -> None:
    """One for each node that a node or the trainer reads, twice where it is read twice."""
    graph = VisibleGraph(report_of(name))
    edges = lay_out(report_of(name)).edges
    assert len(edges) == sum(map(len, graph.inputs.values())) + len(graph.last)


@every_pipeline
def test_no_text_overflows_its_box(name: str) -> None:
    """A call and its place, which share a line, leave room for each other."""
    for group in nodes_of(drawn(report_of(name))).values():
        assert_texts_fit(group)


def assert_texts_fit(group: ET.Element) -> None:
    """All lines of a box are inside it, and no two overlap."""
    box = rectangle(next(group.iter(f"{SVG}rect")))
    ends: dict[str, float] = {}
    for line in texts(group):
        width = cell_len(words_in(line)) * LETTER_WIDTH
        x, y = float(line.attrib["x"]), line.attrib["y"]
        start = x - width if line.get("text-anchor") == "end" else x
        assert start >= max(box.x, ends.get(y, 0))
        assert start + width <= box.right
        assert box.y < float(y) < box.bottom
        ends[y] = start + width


@every_pipeline
def test_the_list_stays_in_the_drawing(name: str) -> None:
    """Every line ends inside, the last one too, and stands below the one before."""
    root = drawn(report_of(name))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    lines = root.findall(f"{SVG}text")
    for line in lines:
        assert float(line.attrib["x"]) + cell_len(words_in(line)) * LETTER_WIDTH <= width
        assert float(line.attrib["y"]) <= height
    heights = [float(line.attrib["y"]) for line in lines]
    assert all(lower - upper >= 15 for upper, lower in pairwise(heights))


def test_the_worst_is_listed_first() -> None:
    """Errors, then warnings, then remarks, in the list and in a box."""
    root = drawn(report_of("straight"))
    rules = ["map-after-mp-prefetch", "threads-in-workers", "unused-silence", "large-capture"]
    listed = [line for line in root.findall(f"{SVG}text") if "rule" in line.attrib["class"]]
    assert [words_in(line).split()[-1] for line in listed] == rules
    both = words(root).partition("threads-in-workers")[2].partition("large-capture")[0]
    assert both.strip(" i") == ""


def test_a_usual_call_is_not_cut() -> None:
    """Boxes are wide enough for it."""
    groups = nodes_of(drawn(report_of("twenty_nodes"))).values()
    assert ["…" in words(group) for group in groups] == [False] * 20


@pytest.mark.parametrize("letter", ["L", "i", "数"])
def test_long_texts_are_cut_in_their_middle(letter: str) -> None:
    """Narrow and wide letters alike; the end of a place stays readable."""
    report = report_on(straight(), findings_of_all_severities())
    named, place = {"transform": letter * 80}, f"x/{letter * 40}.py:7"
    nodes = (
        replace(node, kind=f"Unknown:{letter * 80}", parameters=named, made_at=place)
        for node in report.graph.nodes
    )
    for group in nodes_of(drawn(replace(report, graph=Graph(tuple(nodes))))).values():
        assert_texts_fit(group)
        assert ".py:7" in words(group)


def words_in(line: ET.Element) -> str:
    """A line of text."""
    return "".join(line.itertext())


@every_pipeline
def test_it_needs_nothing_else_and_is_always_the_same(name: str) -> None:
    """It has no URL but the SVG namespace, no script and no external style."""
    text = draw_svg(report_of(name))
    assert text.replace('xmlns="http://www.w3.org/2000/svg"', "").count("http") == 0
    assert not any(word in text for word in ("<script", "@import", "url(", "href"))
    assert text == draw_svg(report_of(name))


def test_it_has_a_title_and_a_description_for_screen_readers() -> None:
    """The title counts the findings, the description gives the order of the calls."""
    root = drawn(report_of("straight"))
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"] == f"{title.attrib['id']} {description.attrib['id']}"
    assert str(title.text).endswith("1 error, 2 warnings, 1 remark")
    assert ": source Probes, 1,000 elements;" in str(description.text)
    assert str(description.text).endswith(".filter(is_long)")


def test_it_follows_a_dark_page() -> None:
    """Every colour of the light page has one for a dark page."""
    light, dark = draw_svg(report_of("straight")).split("@media (prefers-color-scheme: dark)")
    for selector in (".page", ".box", ".chip.error", "text", "text.faint", ".workers", ".edge"):
        assert f".netpipe {selector} {{" in light
        assert f".netpipe {selector} {{" in dark


def test_a_frame_says_how_many_processes_there_are() -> None:
    """The training process encloses those of all workers."""
    layout = lay_out(report_on(mix_of_workers()))
    training, *others = layout.frames
    assert training.label == "training process"
    assert [frame.label.split()[0] for frame in others] == ["1", "2", "4"]
    assert all(inside(frame, training) for frame in others)


def test_workers_in_workers_stand_in_their_frame() -> None:
    """The inner frame lies in the outer one."""
    _, outer, inner = lay_out(report_on(nested_workers())).frames
    assert inside(inner, outer)


def test_a_shared_call_is_drawn_once_and_named_again() -> None:
    """The second box has the same number and says so, without the id of the node."""
    report = report_on(shared_by_workers())
    boxes = [box.entry for box in lay_out(report).boxes if box.entry]
    (repeated,) = (entry for entry in boxes if entry.is_repeated)
    (first,) = (entry for entry in boxes if entry.node == repeated.node and entry != repeated)
    assert first.number == repeated.number == 1
    assert words(drawn(report)).count("as above") == 1


def test_text_from_outside_is_escaped() -> None:
    """Names and messages may hold markup and characters that XML does not allow."""
    finding, *_ = findings_of_all_severities()
    evil = replace(finding, message="<script>&\"']]>\x00 end")
    report = report_on(straight(), {evil: ("Filter",)})
    nodes = [
        replace(node, parameters={"transform": "m.<b>&\x07"}, made_at="<i>&.py:1")
        for node in report.graph.nodes
    ]
    report = replace(report, graph=replace(report.graph, nodes=tuple(nodes)))
    assert "<script>&\"']]>\N{REPLACEMENT CHARACTER} end" in words(drawn(report))
    assert "<b>&\N{REPLACEMENT CHARACTER}" in words(drawn(report))


def test_a_long_word_in_a_message_is_cut() -> None:
    """A path without spaces does not leave the drawing, and no letter is lost."""
    finding = LintFinding("r", "error", (), "at " + "W" * 200 + " it ends", "")
    report = replace(report_on(straight()), findings=(finding,))
    lines = list(list_findings(report, VisibleGraph(report), 60))
    assert all(cell_len(line.label + line.content) <= 60 for line in lines)
    assert "".join(line.content for line in lines).count("W") == 200


def test_findings_are_listed_without_a_graph() -> None:
    """The subject says that there is none."""
    finding, *_ = findings_of_all_severities()
    root = drawn(report_on([1, 2], {finding: ()}))
    assert "without a Grain graph" in words(root)
    assert finding.message in words(root)


def test_a_node_added_by_grain_is_drawn_if_a_finding_is_about_it() -> None:
    """Every finding is marked at a box."""
    finding, *_ = findings_of_all_severities()
    options = grain.experimental.DatasetOptions(filter_warn_threshold_ratio=0.5)
    dataset: Any = grain.experimental.WithOptionsIterDataset(read(source()), options)
    assert "options" not in words(drawn(report_on(dataset)))
    assert "options" in words(drawn(report_on(dataset, {finding: ("Options",)})))


def test_silenced_findings_are_listed_with_their_reason() -> None:
    """The heading counts silenced findings, and the list names their rules and reasons."""
    finding, *others = findings_of_all_severities()
    silenced = (SilencedFinding(**vars(finding), reason="one slow map"),)
    for reported in ((), tuple(others)):
        root = drawn(replace(report_on(straight()), findings=reported, silenced=silenced))
        assert "1 silenced" in words(root)
        assert f"{finding.rule}: one slow map" in words(root)
        lowest = max(float(line.get("y", 0)) for line in root.iter(f"{SVG}text"))
        assert lowest < float(root.get("height", 0))


def test_a_seed_is_drawn_where_the_user_gave_it() -> None:
    """The seeds that Grain derives from it are left out."""
    drawn_calls = words(drawn(report_on(source().seed(3).shuffle())))
    assert ".seed 3" in drawn_calls
    assert not re.search(r"seed \d{5,}", drawn_calls)


def test_a_data_loader_is_drawn_with_its_own_arguments() -> None:
    """It names its worker count and leaves out the function that it adds."""
    loader = grain.DataLoader(
        data_source=Probes(),
        sampler=grain.samplers.IndexSampler(1000, grain.sharding.NoSharding(), seed=0),
        operations=[grain.transforms.Batch(4)],
        worker_count=2,
    )
    drawn_calls = words(drawn(report_on(loader)))
    assert "worker_count=2" in drawn_calls
    assert "mp_prefetch" not in drawn_calls
    assert "lambda" not in drawn_calls


def test_a_finding_of_many_nodes_names_a_few() -> None:
    """It says how many more there are."""
    finding = LintFinding("no-prefetch", "warning", tuple(range(6)), "Many.", "None.")
    report = replace(report_on(straight()), findings=(finding,))
    assert "and 2 more" in words(drawn(report))


@every_pipeline
def test_a_graph_alone_is_the_same_calls(name: str) -> None:
    """It has neither heading nor list, because the page shows both as text."""
    report = report_of(name)
    whole, alone = drawn(report), ET.fromstring(draw_svg_graph(report))
    assert nodes_of(alone).keys() == nodes_of(whole).keys()
    assert float(alone.attrib["height"]) < float(whole.attrib["height"])
    assert not alone.findall(f"{SVG}text")
    assert alone.findtext(f"{SVG}desc") == whole.findtext(f"{SVG}desc")
