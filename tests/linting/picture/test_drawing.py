"""The SVG of a pipeline: its structure, and that nothing overlaps or overflows."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree as ET

import grain
import pytest

from netpipe.linting.linter import LintReport
from netpipe.linting.picture.drawing import draw_svg, draw_svg_graph
from netpipe.linting.picture.layout import Sizes, layout
from netpipe.linting.picture.lettering import monospace_width, sans_width, wrapped
from netpipe.linting.picture.parts import Arrow, Layout, Rectangle
from netpipe.linting.picture.style import ARGUMENTS_SIZE, CALL_SIZE, CHIP_SIZE, PLACE_SIZE
from netpipe.linting.picture.visible_graph import select_visible
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
SIZES = {"call": CALL_SIZE, "arguments": ARGUMENTS_SIZE, "place": PLACE_SIZE, "rule": CHIP_SIZE}

every_pipeline = pytest.mark.parametrize("name", PIPELINES)


def report_of(name: str) -> LintReport:
    """A report on a pipeline in which everything is found."""
    return report_on(PIPELINES[name](), findings_of_all_severities())


def drawn(report: LintReport) -> ET.Element:
    """The drawing, parsed."""
    return ET.fromstring(draw_svg(report))


def nodes_of(root: ET.Element) -> Mapping[int, ET.Element]:
    """The groups of the nodes by their ids; each is there once."""
    groups = [one for one in root.iter(f"{SVG}g") if "data-node" in one.attrib]
    by_id = {int(one.attrib["data-node"]): one for one in groups}
    assert len(by_id) == len(groups)
    return by_id


def rectangle(element: ET.Element) -> Rectangle:
    """Where a rect is, in the frame it is in."""
    return Rectangle(*(float(element.attrib[name]) for name in ("x", "y", "width", "height")))


def texts(element: ET.Element) -> Iterator[ET.Element]:
    """All lines of text in an element."""
    return element.iter(f"{SVG}text")


def words(element: ET.Element) -> str:
    """All text that is shown in an element."""
    return " ".join("".join(one.itertext()) for one in texts(element))


def inside(inner: Rectangle, outer: Rectangle) -> bool:
    """Whether a rectangle lies in another, to a tenth."""
    return (
        inner.x >= outer.x - 0.1
        and inner.y >= outer.y - 0.1
        and inner.right <= outer.right + 0.1
        and inner.bottom <= outer.bottom + 0.1
    )


def apart(one: Rectangle, other: Rectangle) -> bool:
    """Whether two rectangles have no point in common."""
    return (
        one.right < other.x or other.right < one.x or one.bottom < other.y or other.bottom < one.y
    )


def placed(report: LintReport) -> tuple[Layout, Rectangle]:
    """The parts of a drawing, and the frame that they are to be in."""
    pipeline = select_visible(report)
    heights = {one: 50.0 + 10 * (one % 3) for one in pipeline.nodes}
    parts, width, height = layout(pipeline, Sizes(200, heights, 50, (110, 34)))
    return parts, Rectangle(0, 0, width, height)


@every_pipeline
def test_every_node_that_the_user_wrote_is_drawn_once(name: str) -> None:
    """By its id, with its call."""
    report = report_of(name)
    written = {one.id for one in report.graph.nodes if one.kind not in ("Options", "Seed")}
    assert set(nodes_of(drawn(report))) == written


@every_pipeline
def test_every_finding_is_named_at_its_nodes_and_in_the_list(name: str) -> None:
    """In the box of each of its nodes, and once below with its message and its fix."""
    report = report_of(name)
    root = drawn(report)
    groups = nodes_of(root)
    for finding in report.findings:
        marked = {one for one, group in groups.items() if finding.rule in words(group)}
        assert marked == set(finding.nodes)
        assert words(root).count(finding.message) == 1
        assert words(root).count(finding.fix) == 1


@every_pipeline
def test_boxes_do_not_overlap(name: str) -> None:
    """Neither do the processes, where one is not in the other."""
    parts, _ = placed(report_of(name))
    boxes = [one.place for one in parts.boxes]
    assert all(apart(one, other) for one, other in combinations(boxes, 2))
    processes = [one.place for one in parts.processes]
    assert all(
        apart(one, other) or inside(one, other) or inside(other, one)
        for one, other in combinations(processes, 2)
    )


@every_pipeline
def test_a_box_is_in_workers_as_its_node_is(name: str) -> None:
    """What runs in workers stands in one of their cards, all else in the training process."""
    parts, _ = placed(report_of(name))
    training, *workers = parts.processes
    for box in parts.boxes:
        in_worker = box.node is not None and box.node.in_worker
        assert any(inside(box.place, one.place) for one in workers) == in_worker
        assert inside(box.place, training.place) == (not in_worker)


@every_pipeline
def test_everything_is_in_the_frame(name: str) -> None:
    """Boxes, processes with the cards behind them, and ways."""
    parts, frame = placed(report_of(name))
    assert all(inside(one.place, frame) for one in parts.boxes)
    assert all(
        inside(card, frame)
        for one in parts.processes
        for card in (one.place, one.place.moved(5.0 * (one.cards - 1), -5.0 * (one.cards - 1)))
    )
    points = [Rectangle(x, y, 0, 0) for arrow in parts.arrows for x, y in arrow.points]
    assert all(inside(one, frame) for one in points)


@every_pipeline
def test_arrows_lead_down_and_around_the_boxes(name: str) -> None:
    """From the foot of a box to the head of one below, across only where no box stands."""
    parts, _ = placed(report_of(name))
    boxes = [one.place for one in parts.boxes]
    for arrow in parts.arrows:
        heights = [y for _, y in arrow.points]
        assert heights == sorted(heights)
        assert not any(crosses(arrow, box) for box in boxes)


def crosses(arrow: Arrow, box: Rectangle) -> bool:
    """Whether an arrow runs through a box, and does not just touch it."""
    core = Rectangle(box.x + 1, box.y + 1, box.width - 2, box.height - 2)
    for (x0, y0), (x1, y1) in pairwise(arrow.points):
        middle = (y0 + y1) / 2
        parts = [
            Rectangle(x0, y0, 0, middle - y0),
            Rectangle(min(x0, x1), middle, abs(x1 - x0), 0),
            Rectangle(x1, middle, 0, y1 - middle),
        ]
        if not all(apart(one, core) for one in parts):
            return True
    return False


@every_pipeline
def test_elements_come_from_above(name: str) -> None:
    """Each node has an arrow from each that it reads, but for those drawn in other workers."""
    report = report_of(name)
    pipeline = select_visible(report)
    parts, _ = placed(report)
    ends = [one for one in parts.arrows if one.head]
    regions = sum(
        node.kind == "ProcessPrefetch" and bool(pipeline.inputs[node.id])
        for node in pipeline.nodes.values()
    )
    reads = sum(len(set(inputs)) for inputs in pipeline.inputs.values()) + len(pipeline.last)
    assert len(ends) == reads
    assert len(parts.arrows) == reads + regions


@every_pipeline
def test_no_text_overflows_its_box(name: str) -> None:
    """By the widths that are estimated; a call and its place share a line."""
    report = report_of(name)
    for group in nodes_of(drawn(report)).values():
        box = rectangle(next(group.iter(f"{SVG}rect")))
        for line in texts(group):
            width = monospace_width(
                "".join(line.itertext()), SIZES[line.attrib["class"].split()[0]]
            )
            x = float(line.attrib["x"])
            start = x - width if line.attrib["text-anchor"] == "end" else x
            assert start >= box.x
            assert start + width <= box.right
            assert box.y < float(line.attrib["y"]) < box.bottom


@every_pipeline
def test_the_list_stays_in_the_drawing(name: str) -> None:
    """Every line of text ends inside, the last one too, and stands below the one before."""
    root = drawn(report_of(name))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for line in root.findall(f"{SVG}text"):
        said = "".join(line.itertext())
        assert float(line.attrib["x"]) + sans_width(said, 12) <= width
        assert float(line.attrib["y"]) <= height
    heights = [float(line.attrib["y"]) for line in root.findall(f"{SVG}text")]
    assert all(lower - upper >= 15 for upper, lower in pairwise(heights))


def test_the_worst_is_listed_first() -> None:
    """Errors, then warnings, then remarks; so it is in a box."""
    root = drawn(report_of("straight"))
    rules = ["map-after-mp-prefetch", "threads-in-workers", "unused-silence", "large-capture"]
    listed = [one for one in root.findall(f"{SVG}text") if "rule" in one.attrib["class"]]
    assert [one.split()[-1] for one in map(words_in, listed)] == rules
    both = words(root).partition("threads-in-workers")[2].partition("large-capture")[0]
    assert both.strip(" i") == ""


def test_boxes_are_as_wide_as_their_texts_need() -> None:
    """Nothing of a usual call is cut."""
    for group in nodes_of(drawn(report_of("twenty_nodes"))).values():
        assert "…" not in words(group)


def test_a_long_call_leaves_room_for_its_place() -> None:
    """Both are cut in their middle."""
    report = report_on(straight())
    nodes = [
        replace(one, kind="Unknown:" + "L" * 50, made_at="x/" + "f" * 40 + ".py:7")
        for one in report.graph.nodes
    ]
    report = replace(report, graph=replace(report.graph, nodes=tuple(nodes)))
    for group in nodes_of(drawn(report)).values():
        call, place, *_ = texts(group)
        end = float(call.attrib["x"]) + monospace_width(words_in(call), CALL_SIZE)
        assert end <= float(place.attrib["x"]) - monospace_width(words_in(place), PLACE_SIZE)
        assert words_in(place).endswith(".py:7")


def words_in(line: ET.Element) -> str:
    """A line of text."""
    return "".join(line.itertext())


@every_pipeline
def test_it_needs_nothing_else_and_is_always_the_same(name: str) -> None:
    """No address but the name of SVG itself, no script, no style from elsewhere."""
    text = draw_svg(report_of(name))
    assert text.replace('xmlns="http://www.w3.org/2000/svg"', "").count("http") == 0
    assert not any(word in text for word in ("<script", "@import", "url(", "href"))
    assert text == draw_svg(report_of(name))


def test_it_has_a_title_and_is_told_to_those_who_do_not_see_it() -> None:
    """The counts in the title, the order in the description, both named by the image."""
    root = drawn(report_of("straight"))
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-labelledby"] == f"{title.attrib['id']} {description.attrib['id']}"
    assert str(title.text).endswith("1 error, 2 warnings, 1 remark")
    assert str(description.text).startswith("From the source to the trainer: source Probes, 1,000")
    assert str(description.text).endswith(".filter(is_long)")


def test_it_follows_a_dark_page() -> None:
    """Every colour of the light page has one for a dark page."""
    light, dark = draw_svg(report_of("straight")).split("@media (prefers-color-scheme: dark)")
    for selector in (".page", ".box", ".chip.error", "text", "text.faint", ".workers", ".arrow"):
        assert f".netpipe {selector} {{" in light
        assert f".netpipe {selector} {{" in dark


def test_as_many_cards_as_workers_up_to_three() -> None:
    """One card in front of up to two, each with its label."""
    parts, _ = placed(report_on(mix_of_workers()))
    assert [(one.label, one.cards) for one in parts.processes] == [
        ("training process", 1),
        ("1 worker process", 1),
        ("2 worker processes", 2),
        ("4 worker processes", 3),
    ]


def test_workers_in_workers_stand_in_their_card() -> None:
    """The inner card lies in the outer one."""
    parts, _ = placed(report_on(nested_workers()))
    _, outer, inner = parts.processes
    assert inside(inner.place, outer.place)


def test_workers_that_share_a_node_draw_it_once_and_name_it_again() -> None:
    """The second time as a box without a number."""
    parts, _ = placed(report_on(shared_by_workers()))
    assert [str(one.node) for one in parts.boxes if one.again] == [
        "Map of tests.linting.picture.pictured.tokenize"
    ]
    assert words(drawn(report_on(shared_by_workers()))).count("as in the other workers") == 1


def test_text_from_outside_is_escaped() -> None:
    """Names and messages may hold markup and characters that XML does not know."""
    finding, *_ = findings_of_all_severities()
    evil = replace(finding, message="<script>&\"']]>\x00 end")
    report = report_on(straight(), {evil: ("Filter",)})
    nodes = [
        replace(one, parameters={"transform": "m.<b>&\x07"}, made_at="<i>&.py:1")
        for one in report.graph.nodes
    ]
    report = replace(report, graph=replace(report.graph, nodes=tuple(nodes)))
    assert "<script>&\"']]>\N{REPLACEMENT CHARACTER} end" in words(drawn(report))
    assert "<b>&\N{REPLACEMENT CHARACTER}" in words(drawn(report))


def test_a_long_word_in_a_message_is_cut() -> None:
    """A path without spaces does not leave the drawing."""
    lines = list(wrapped("at " + "W" * 200 + " it ends", 300, 13))
    assert all(sans_width(line, 13) <= 300 for line in lines)
    assert "".join(lines).count("W") == 200


def test_without_a_graph_it_says_so() -> None:
    """With what was found, in a drawing like any other."""
    finding, *_ = findings_of_all_severities()
    root = drawn(report_on([1, 2], {finding: ()}))
    assert "A loader without a Grain graph, judged for throughput" in words(root)
    assert finding.message in words(root)


def test_what_the_user_did_not_write_is_drawn_if_found_guilty() -> None:
    """A finding must have its place."""
    finding, *_ = findings_of_all_severities()
    options = grain.experimental.DatasetOptions(filter_warn_threshold_ratio=0.5)
    dataset: Any = grain.experimental.WithOptionsIterDataset(read(source()), options)
    assert "options" not in words(drawn(report_on(dataset)))
    assert "options" in words(drawn(report_on(dataset, {finding: ("Options",)})))


def test_what_is_silenced_is_listed_with_its_reason() -> None:
    """The heading counts it, and below the findings stands which rule it is and why."""
    finding, *others = findings_of_all_severities()
    silenced = (SilencedFinding(finding, "one slow map is meant"),)
    for heard in ((), tuple(others)):
        root = drawn(replace(report_on(straight()), findings=heard, silenced=silenced))
        assert "1 silenced" in words(root)
        assert f"Silenced: {finding.rule}: one slow map is meant" in words(root)
        lowest = max(float(one.get("y", 0)) for one in root.iter(f"{SVG}text"))
        assert lowest < float(root.get("height", 0))


def test_a_seed_is_drawn_where_the_user_gave_it() -> None:
    """What Grain derives of it is a number that the user never wrote."""
    drawn_calls = words(drawn(report_on(source().seed(3).shuffle())))
    assert ".seed 3" in drawn_calls
    assert not re.search(r"seed \d{5,}", drawn_calls)


def test_a_data_loader_is_drawn_in_its_own_words() -> None:
    """Its workers are its argument, and a function that it adds is not the user's."""
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
    """And says how many more there are."""
    finding = LintFinding("no-prefetch", "warning", tuple(range(6)), "Many.", "None.")
    report = replace(report_on(straight()), findings=(finding,))
    assert "and 2 more" in words(drawn(report))


@every_pipeline
def test_a_graph_alone_is_the_same_calls(name: str) -> None:
    """Without heading and list of findings: for a page that has both as text of its own."""
    report = report_of(name)
    whole, alone = drawn(report), ET.fromstring(draw_svg_graph(report))
    assert nodes_of(alone).keys() == nodes_of(whole).keys()
    assert float(alone.attrib["height"]) < float(whole.attrib["height"])
    assert not alone.findall(f"{SVG}text")
    assert alone.findtext(f"{SVG}desc") == whole.findtext(f"{SVG}desc")
