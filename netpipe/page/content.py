"""What stands on a page: parts of cards, in plain words and figures; how they look is elsewhere."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, TypeAlias


class Tone(StrEnum):
    """How a result is taken; the page shows it by a colour, a sign and a word."""

    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    OPEN = "open"
    PLAIN = "plain"


@dataclass(frozen=True)
class Headline:
    """What a person reads first.

    Attributes:
        tone: How it is taken.
        word: The outcome, as "Loader-bound".
        sentence: What was found.
        next: What to do about it; "" for nothing.
    """

    tone: Tone
    word: str
    sentence: str
    next: str = ""


@dataclass(frozen=True)
class Fact:
    """One figure: "headroom", "0.88", "0.84 to 0.93"."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Drawing:
    """A figure with what is to be seen on it.

    Attributes:
        heading: What it is of.
        svg: A whole SVG document.
        caption: What is to be seen, with the figures that say so.
        is_wide: It takes the whole width of the page, as far as it is drawn for that.
        is_scrolled: It keeps a readable size and scrolls in its box, where the page is narrow.
    """

    kind: ClassVar[str] = "drawing"
    heading: str
    svg: str
    caption: str
    is_wide: bool = False
    is_scrolled: bool = False


@dataclass(frozen=True)
class Cell:
    """One place in a table.

    Attributes:
        text: What it says.
        tone: Not plain: with a sign before it.
        note: What stands below it, smaller.
        svg: A drawing in it, which says what it shows by its own title; "" for none.
        is_code: It is a piece of somebody's code, or a name in it.
    """

    text: str
    tone: Tone = Tone.PLAIN
    note: str = ""
    svg: str = ""
    is_code: bool = False


@dataclass(frozen=True)
class Column:
    """The head of a column; figures stand at its right."""

    name: str
    is_figure: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells; a wide one scrolls in its own box where the page is narrow."""

    kind: ClassVar[str] = "table"
    heading: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    is_wide: bool = False


@dataclass(frozen=True)
class Note:
    """A line or a paragraph, with what it is of before it.

    Attributes:
        label: What it is of; "" for none.
        text: What it says.
        tone: Not plain: with a sign before the label.
        more: What belongs to it, each with a label.
    """

    label: str
    text: str
    tone: Tone = Tone.PLAIN
    more: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Notes:
    """A list of lines."""

    kind: ClassVar[str] = "notes"
    is_wide: ClassVar[bool] = False
    heading: str
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class Facts:
    """Names and values, one below the other."""

    kind: ClassVar[str] = "facts"
    is_wide: ClassVar[bool] = False
    heading: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class Pair:
    """A drawing and the table of its figures, side by side where there is room."""

    kind: ClassVar[str] = "pair"
    is_wide: ClassVar[bool] = True
    drawing: Drawing
    table: Table

    @property
    def heading(self) -> str:
        """What both are of."""
        return self.drawing.heading


Card: TypeAlias = Drawing | Table | Notes | Facts | Pair


@dataclass(frozen=True)
class Part:
    """One result with all that belongs to it.

    Attributes:
        title: What it is of: a device, "The order of the calls".
        headline: What came of it.
        facts: The few figures that stand out.
        cards: The rest, the most telling first.
    """

    title: str
    headline: Headline
    facts: tuple[Fact, ...] = ()
    cards: tuple[Card, ...] = ()
