"""Where the nodes of a pipeline and its processes stand in a drawing.

From the sources above to the trainer below. All workers stand above the training process, so one
line parts the processes whatever the pipeline; each set of workers is laid out on its own and then
placed as one thing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from netpipe.linting.graph.nodes import Node
from netpipe.linting.picture.layers import Places, Thing, place
from netpipe.linting.picture.parts import Arrow, Box, Layout, Process, Rectangle
from netpipe.linting.picture.visible_graph import TRAINING, VisibleGraph, label_workers

PADDING: Final = 18.0
LABEL_HEIGHT: Final = 22.0
CARD_OFFSET: Final = 5.0
_MOST_CARDS: Final = 3


@dataclass(frozen=True)
class Sizes:
    """How large boxes are.

    Attributes:
        width: Of every box.
        heights: Of the boxes, by the ids of their nodes.
        again_height: Of a box that names a node drawn elsewhere.
        trainer: Width and height of the trainer's.
    """

    width: float
    heights: Mapping[int, float]
    again_height: float
    trainer: tuple[float, float]


def layout(pipeline: VisibleGraph, sizes: Sizes) -> tuple[Layout, float, float]:
    """Place everything that is drawn of a pipeline.

    Args:
        pipeline: What is drawn, at least one node.
        sizes: Of its boxes.

    Returns:
        The parts, and the width and height between 0 and which they all are.
    """
    trainer = _in_box(None, *sizes.trainer)
    parts, places, _ = _Reading(pipeline, sizes).down_to(trainer, pipeline.last)
    own = _own_extent(parts)
    left, right = min(0.0, own.x - PADDING), max(places.width, own.right + PADDING)
    top = own.y - PADDING
    bottom = places.height + PADDING + LABEL_HEIGHT
    training = Process(Rectangle(left, top, right - left, bottom - top), TRAINING, footer=True)
    above = max(0.0, -top)
    drawn = Layout(processes=(training,)) + parts
    return drawn.moved(-left, above), right - left, bottom + above


def _own_extent(parts: Layout) -> Rectangle:
    """Return the part of the drawing that is taken by what runs in the training process."""
    ground = max((one.place.bottom for one in parts.processes), default=-inf)
    own = [one.place for one in parts.boxes if one.place.y > ground]
    lanes = [x for arrow in parts.arrows for x, y in arrow.points if y > ground]
    left = min([one.x for one in own] + lanes)
    right = max([one.right for one in own] + lanes)
    top, bottom = min(one.y for one in own), max(one.bottom for one in own)
    return Rectangle(left, top, right - left, bottom - top)


@dataclass(frozen=True)
class _Member:
    """What takes one place, and its parts as they are with its axis at 0 and its top at 0."""

    thing: Thing
    parts: Layout


def _in_box(node: Node | None, width: float, height: float, again: bool = False) -> _Member:
    box = Box(Rectangle(-width / 2, 0, width, height), node, again)
    return _Member(Thing(width / 2, width / 2, height), Layout(boxes=(box,)))


class _Reading:
    """Reads a pipeline from the trainer up and remembers what is drawn already."""

    def __init__(self, pipeline: VisibleGraph, sizes: Sizes) -> None:
        self._pipeline = pipeline
        self._sizes = sizes
        self._drawn: set[int] = set()

    def down_to(self, last: _Member, ids: Sequence[int]) -> tuple[Layout, Places, float]:
        """Place all that `last` reads, through any number of nodes, in one frame.

        Returns:
            The parts, their frame, and the axis of `last` in it.
        """
        members, workers = [last], set[int]()
        numbers: dict[int, int] = {}
        self._add(ids, members, workers, numbers)
        members[0] = _reading(last, tuple(numbers[one] for one in ids))
        places = place([one.thing for one in members], workers)
        parts = Layout(arrows=tuple(_arrows(places, members)))
        for member, point in zip(members, places.points, strict=True):
            parts += member.parts.moved(*point)
        return parts, places, places.points[0][0]

    def _add(
        self,
        ids: Sequence[int],
        members: list[_Member],
        workers: set[int],
        numbers: dict[int, int],
    ) -> None:
        """Add nodes, and all that they read, to the members of a frame, and number them."""
        waiting = list(reversed(ids))  # and no recursion: a pipeline may be a long one
        inputs: dict[int, tuple[int, ...]] = {}
        while waiting:
            one = waiting.pop()
            if one in numbers:
                continue
            number = numbers[one] = len(members)
            members.append(self._box(one))
            if one in self._drawn:
                continue
            self._drawn.add(one)
            node, read = self._pipeline.nodes[one], self._pipeline.inputs[one]
            if node.kind == "ProcessPrefetch" and read:
                workers.add(len(members))
                members[number] = _reading(members[number], (len(members),))
                members.append(self._workers(node, read))
            else:
                inputs[number] = read
                waiting.extend(reversed(read))
        for number, read in inputs.items():
            members[number] = _reading(members[number], tuple(numbers[each] for each in read))

    def _box(self, one: int) -> _Member:
        again = one in self._drawn
        height = self._sizes.again_height if again else self._sizes.heights[one]
        return _in_box(self._pipeline.nodes[one], self._sizes.width, height, again)

    def _workers(self, prefetch: Node, ids: Sequence[int]) -> _Member:
        """Return the workers of an `mp_prefetch` with all that runs in them as one member."""
        leave = _Member(Thing(0, 0, 0), Layout())
        parts, places, axis = self.down_to(leave, ids)
        cards = _cards(prefetch)
        behind = CARD_OFFSET * (cards - 1)
        front = Rectangle(
            -axis - PADDING,
            behind,
            places.width + 2 * PADDING,
            LABEL_HEIGHT + PADDING + places.height,
        )
        process = Process(front, label_workers(prefetch), cards)
        inside = parts.moved(-axis, front.y + LABEL_HEIGHT + PADDING)
        thing = Thing(-front.x, front.right + behind, front.bottom)
        return _Member(thing, Layout(processes=(process,)) + inside)


def _reading(member: _Member, inputs: tuple[int, ...]) -> _Member:
    return replace(member, thing=replace(member.thing, inputs=inputs))


def _cards(prefetch: Node) -> int:
    workers = prefetch.parameters.get("num_workers")
    return max(1, min(workers, _MOST_CARDS)) if isinstance(workers, int) else _MOST_CARDS


def _arrows(places: Places, members: Sequence[_Member]) -> Iterator[Arrow]:
    for (reader, _), points in places.routes.items():
        yield Arrow(points, head=bool(members[reader].parts.boxes))
