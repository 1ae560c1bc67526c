"""What a drawing of a pipeline consists of: boxes, processes around them, and arrows."""

from dataclasses import dataclass, replace

from netpipe.linting.graph.nodes import Node
from netpipe.linting.picture.layers import Point


@dataclass(frozen=True)
class Rectangle:
    """A part of the drawing, by its upper left corner and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """Where it ends."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Where it ends."""
        return self.y + self.height

    def moved(self, x: float, y: float) -> "Rectangle":
        """Return it at another place."""
        return replace(self, x=self.x + x, y=self.y + y)


@dataclass(frozen=True)
class Box:
    """A node's place.

    Attributes:
        place: Its place.
        node: The node; None for the trainer.
        again: Whether the node is drawn elsewhere, and here only named.
    """

    place: Rectangle
    node: Node | None
    again: bool = False


@dataclass(frozen=True)
class Process:
    """What runs in one process, or in as many equal ones as there are cards.

    Attributes:
        place: Place of the card in front; the others peep out behind it, up and to the right.
        label: What the process is called.
        cards: How many are drawn.
        footer: Whether the label stands at its foot, where nothing leaves it.
    """

    place: Rectangle
    label: str
    cards: int = 1
    footer: bool = False


@dataclass(frozen=True)
class Arrow:
    """The way from a node to one that reads it.

    Attributes:
        points: From the first on, every second part runs between two rows, and may be bent.
        head: Whether it ends at the node, and not at the edge of a process.
    """

    points: tuple[Point, ...]
    head: bool

    def moved(self, x: float, y: float) -> "Arrow":
        """Return it at another place."""
        return replace(self, points=tuple((of_x + x, of_y + y) for of_x, of_y in self.points))


@dataclass(frozen=True)
class Layout:
    """The parts of a drawing."""

    boxes: tuple[Box, ...] = ()
    processes: tuple[Process, ...] = ()
    arrows: tuple[Arrow, ...] = ()

    def moved(self, x: float, y: float) -> "Layout":
        """Return it at another place."""
        return Layout(
            tuple(replace(one, place=one.place.moved(x, y)) for one in self.boxes),
            tuple(replace(one, place=one.place.moved(x, y)) for one in self.processes),
            tuple(one.moved(x, y) for one in self.arrows),
        )

    def __add__(self, other: "Layout") -> "Layout":
        """Return one with the parts of both."""
        return Layout(
            self.boxes + other.boxes,
            self.processes + other.processes,
            self.arrows + other.arrows,
        )
