"""The pipeline in a drawing: boxes with calls, the processes around them, and arrows."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from netpipe.linting.graph.nodes import Node
from netpipe.linting.picture.calls import describe_call
from netpipe.linting.picture.layout import CARD_OFFSET, PADDING, Sizes, layout
from netpipe.linting.picture.lettering import monospace_columns, monospace_width
from netpipe.linting.picture.parts import Arrow, Box, Process
from netpipe.linting.picture.style import ARGUMENTS_SIZE, CALL_SIZE, CHIP_SIZE, PLACE_SIZE
from netpipe.linting.picture.svg import element, plain, text
from netpipe.linting.picture.visible_graph import VisibleGraph, label_finding, shorten_middle

_BOX_WIDTHS: Final = (190.0, 340.0)
_INSET: Final = 12.0
_LINE: Final = 18.0
_CHIP: Final = 22.0
_TRAINER: Final = (110.0, 34.0)
_ROUND: Final = 8.0
_PLACE_COLUMNS: Final = 24


def draw(pipeline: VisibleGraph) -> tuple[Sequence[str], float, float]:
    """Draw what is shown of a pipeline, one node at least.

    Returns:
        The elements, and the width and the height that they take, from 0, 0 on.
    """
    heights = {one: _height(pipeline, node) for one, node in pipeline.nodes.items()}
    sizes = Sizes(_box_width(pipeline), heights, 2 * _INSET + 2 * _LINE - 6, _TRAINER)
    parts, width, height = layout(pipeline, sizes)
    drawn = [
        *(_process(one) for one in parts.processes),
        *(_arrow(one) for one in parts.arrows),
        *(_box(pipeline, one) for one in parts.boxes),
    ]
    return drawn, width, height


def _process(process: Process) -> str:
    look = "training" if process.footer else "workers"
    place = process.place
    behind = [place.moved(CARD_OFFSET * card, -CARD_OFFSET * card) for card in range(process.cards)]
    cards = (
        element("rect", x=one.x, y=one.y, width=one.width, height=one.height, rx=10, class_=look)
        for one in reversed(behind)
    )
    y = place.bottom - 10 if process.footer else place.y + 19
    label = text(place.x + PADDING, y, process.label, f"label on-{look}")
    return element("g", *cards, label)


def _arrow(arrow: Arrow) -> str:
    path = "M{:.1f} {:.1f}".format(*arrow.points[0])
    for (x0, y0), (x1, y1) in pairwise(arrow.points):
        path += f"V{y1:.1f}" if abs(x1 - x0) < 1 else _turn(x0, x1, (y0 + y1) / 2, y1)
    line = element("path", d=path, class_="arrow")
    return line + _head(*arrow.points[-1]) if arrow.head else line


def _turn(x0: float, x1: float, y: float, end: float) -> str:
    """Go down to `y`, across, and down to the end, with round corners."""
    radius = min(_ROUND, abs(x1 - x0) / 2)
    across = radius if x1 > x0 else -radius
    return (
        f"V{y - radius:.1f}Q{x0:.1f} {y:.1f} {x0 + across:.1f} {y:.1f}"
        f"H{x1 - across:.1f}Q{x1:.1f} {y:.1f} {x1:.1f} {y + radius:.1f}V{end:.1f}"
    )


def _head(x: float, y: float) -> str:
    return element("path", d=f"M{x:.1f} {y:.1f}l-4.5 -8h9z", class_="head")


def _box(pipeline: VisibleGraph, box: Box) -> str:
    if box.node is None:
        return _trainer(box)
    findings = () if box.again else pipeline.findings.get(box.node.id, ())
    severity = findings[0].severity if findings else ""
    place = box.place
    rect = element(
        "rect",
        x=place.x,
        y=place.y,
        width=place.width,
        height=place.height,
        rx=7,
        class_=" ".join(filter(None, ["box", severity, "again" if box.again else ""])),
    )
    tip = element(
        "title", plain(" ".join(filter(None, [str(describe_call(box.node)), box.node.made_at])))
    )
    lines = _again(box, box.node) if box.again else _lines(pipeline, box, box.node)
    number = {} if box.again else {"data_node": str(box.node.id)}
    return element("g", tip, rect, *lines, **number)


def _trainer(box: Box) -> str:
    place = box.place
    pill = element(
        "rect",
        x=place.x,
        y=place.y,
        width=place.width,
        height=place.height,
        rx=place.height / 2,
        class_="trainer",
    )
    middle = place.x + place.width / 2
    return pill + text(middle, place.y + 21.5, "trainer", "call in-trainer", "middle")


def _lines(pipeline: VisibleGraph, box: Box, node: Node) -> Iterator[str]:
    """Yield the call, its arguments, and a chip for each finding."""
    call, place = describe_call(node), box.place
    x, y = place.x + _INSET, place.y + _INSET + 10
    made_at = _file(node)
    room = place.width - 2 * _INSET
    beside = monospace_width(made_at + " ", PLACE_SIZE)
    yield _fitted(x, y, call.name, "call", room - beside, CALL_SIZE)
    if made_at:
        yield text(place.right - _INSET, y, made_at, "place faint", "end")
    if call.arguments:
        y += _LINE
        yield _fitted(x, y, ", ".join(call.arguments), "arguments", room, ARGUMENTS_SIZE)
    for finding in pipeline.findings.get(node.id, ()):
        yield element(
            "rect",
            x=place.x + 6,
            y=y + 8,
            width=place.width - 12,
            height=_CHIP - 4,
            rx=4,
            class_=f"chip {finding.severity}",
        )
        y += _CHIP
        room_in_chip = place.width - 12 - 12
        look = f"rule {finding.severity}"
        yield _fitted(x, y - 1, label_finding(finding), look, room_in_chip, CHIP_SIZE)


def _file(node: Node) -> str:
    return shorten_middle(node.made_at.rpartition("/")[2], _PLACE_COLUMNS)


def _again(box: Box, node: Node) -> Iterator[str]:
    x, y = box.place.x + _INSET, box.place.y + _INSET + 10
    room = box.place.width - 2 * _INSET
    yield _fitted(x, y, str(describe_call(node)), "call", room, CALL_SIZE)
    yield text(x, y + _LINE, "as in the other workers", "faint")


def _fitted(x: float, y: float, content: str, look: str, room: float, size: float) -> str:
    return text(x, y, shorten_middle(content, monospace_columns(room, size)), look)


def _height(pipeline: VisibleGraph, node: Node) -> float:
    lines = 2 if describe_call(node).arguments else 1
    return 2 * _INSET + lines * _LINE - 6 + len(pipeline.findings.get(node.id, ())) * _CHIP


def _box_width(pipeline: VisibleGraph) -> float:
    """Return a width for all boxes: of the widest text, between two limits."""
    least, most = _BOX_WIDTHS
    texts = (one for node in pipeline.nodes.values() for one in _text_widths(pipeline, node))
    return min(max(least, *texts), most)


def _text_widths(pipeline: VisibleGraph, node: Node) -> Iterator[float]:
    call, made_at = describe_call(node), _file(node)
    beside = monospace_width(made_at + " ", PLACE_SIZE) + 2 * _INSET
    yield monospace_width(call.name, CALL_SIZE) + beside + 2
    yield monospace_width(", ".join(call.arguments), ARGUMENTS_SIZE) + 2 * _INSET + 2
    for finding in pipeline.findings.get(node.id, ()):
        yield monospace_width(label_finding(finding), CHIP_SIZE) + 2 * _INSET + 2
