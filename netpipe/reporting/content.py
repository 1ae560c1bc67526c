"""The content of a page: a part for each result, with cards of text, figures and drawings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from netpipe.reporting.tables import Table
from netpipe.reporting.tones import Tone


@dataclass(frozen=True)
class Headline:
    """The first lines of a part: "Loader-bound", the explanation, and the advice, if any."""

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
    """An SVG document, with a table of its figures beside it if there is room.

    `is_scrolled` keeps the drawing at a readable size on a narrow page.
    """

    kind: ClassVar[str] = "drawing"
    heading: str
    svg: str
    caption: str
    table: Table | None = None
    is_scrolled: bool = False


@dataclass(frozen=True)
class Note:
    """A labelled paragraph, with further labelled lines in `more`."""

    label: str
    text: str
    tone: Tone = Tone.PLAIN
    more: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Notes:
    """A list of paragraphs."""

    kind: ClassVar[str] = "notes"
    heading: str
    notes: Sequence[Note]


@dataclass(frozen=True)
class Facts:
    """A list of names and values."""

    kind: ClassVar[str] = "facts"
    heading: str
    facts: Sequence[Fact]


Card: TypeAlias = Drawing | Table | Notes | Facts


@dataclass(frozen=True)
class Part:
    """A result on the page: the few most important figures, then cards with everything else."""

    title: str
    headline: Headline
    facts: Sequence[Fact] = ()
    cards: Sequence[Card] = ()
