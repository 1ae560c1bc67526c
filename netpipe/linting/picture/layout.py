"""Places for the calls of an outline: one column from the sources down to the trainer.

Branches are indented and stand below each other; the edges from their last calls run down at the
left of them. A frame encloses the calls of one process; the frames of workers lie in the frame of
the process that starts them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from netpipe.linting.picture.outline import Branches, Entry, Outline, Workers
from netpipe.linting.picture.visible_graph import TRAINING

# Sizes are in px.
BOX_WIDTH: Final = 360
BOX_PADDING: Final = 10
LINE_HEIGHT: Final = 18
CHIP_HEIGHT: Final = 22
_FRAME_PADDING: Final = 16
_LABEL_HEIGHT: Final = 12
_GAP: Final = 20
_INDENT: Final = 28
# From the left side of a box to the edge that leads down from it.
_EDGE_INSET: Final = 24

Point: TypeAlias = tuple[int, int]
_Part: TypeAlias = Entry | Branches | Workers | None


@dataclass(frozen=True)
class Rectangle:
    """A part of the drawing, by its upper left corner and its size."""

    x: int
    y: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """The x of its right side."""
        return self.x + self.width

    @property
    def bottom(self) -> int:
        """The y of its lower side."""
        return self.y + self.height


@dataclass(frozen=True)
class Box:
    """The place of a call; `entry` is None for the trainer."""

    place: Rectangle
    entry: Entry | None


@dataclass(frozen=True)
class Frame:
    """The frame around all that runs in one process, or in several equal ones."""

    place: Rectangle
    label: str


class Layout:
    """A picture's boxes, its frames with the outermost first, and its edges from top to bottom.

    The upper left corner is at 0, 0.

    Args:
        outline: A pipeline's calls; without any, nothing has a place.
    """

    def __init__(self, outline: Outline) -> None:
        self.boxes: list[Box] = []
        self.frames: list[Frame] = []
        self.edges: list[tuple[Point, ...]] = []
        self.width = self.height = 0
        self._bottom = -_GAP
        # The beginnings of the edges that lead to the next box.
        self._open_edges: list[tuple[Point, ...]] = []
        if outline:
            self._add_frame(TRAINING, (*outline, None), 0)
            self.width, self.height = self.frames[0].place.right, self.frames[0].place.bottom

    def _add_frame(self, label: str, parts: Sequence[_Part], x: int) -> None:
        index, first_box = len(self.frames), len(self.boxes)
        top = self._bottom + _GAP
        self._bottom = top + _LABEL_HEIGHT
        self._add_all(parts, x + _FRAME_PADDING)
        inside = [box.place.right for box in self.boxes[first_box:]]
        inside += [frame.place.right for frame in self.frames[index:]]
        right = max(inside) + _FRAME_PADDING
        self._bottom += _FRAME_PADDING
        place = Rectangle(x, top, right - x, self._bottom - top)
        self.frames.insert(index, Frame(place, label))

    def _add_all(self, parts: Sequence[_Part], x: int) -> None:
        for part in parts:
            match part:
                case Branches():
                    self._add_branches(part.outlines, x)
                case Workers():
                    self._add_frame(part.label, part.outline, x)
                case _:
                    self._add_box(part, x)

    def _add_branches(self, outlines: Sequence[Outline], x: int) -> None:
        edges: list[tuple[Point, ...]] = []
        for outline in outlines:
            self._open_edges = []
            self._add_all(outline, x + _INDENT)
            last = self.boxes[-1].place
            middle = last.y + last.height // 2
            edges.append(((last.x, middle), (x + _INDENT // 2, middle)))
        self._open_edges = edges

    def _add_box(self, entry: Entry | None, x: int) -> None:
        place = Rectangle(x, self._bottom + _GAP, BOX_WIDTH, _height(entry))
        self.boxes.append(Box(place, entry))
        self.edges += [(*start, (start[-1][0], place.y)) for start in self._open_edges]
        self._open_edges = [((x + _EDGE_INSET, place.bottom),)]
        self._bottom = place.bottom


def _height(entry: Entry | None) -> int:
    if entry is None:
        return LINE_HEIGHT + BOX_PADDING
    lines = 2 if entry.call.arguments and not entry.is_repeated else 1
    return 2 * BOX_PADDING + lines * LINE_HEIGHT - 4 + len(entry.findings) * CHIP_HEIGHT
