"""A page, read back as a browser would: its elements, their attributes and its text."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = ("meta", "br", "img", "link", "input")


@dataclass
class Parsed(HTMLParser):
    """The content of a page.

    Attributes:
        elements: The name and the attributes of each element, in order.
        texts: Every text outside the style sheet.
        open: Elements not closed yet; empty at the end of a well-nested page.
    """

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin."""
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that is closed at once."""
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Note its end."""
        assert self.open[-1] == tag, (self.open, self.getpos())
        self.open.pop()

    def handle_data(self, data: str) -> None:
        """Note a text."""
        if "style" not in self.open and data.strip():
            self.texts.append(" ".join(data.split()))

    @property
    def text(self) -> str:
        """All text on the page."""
        return "\n".join(self.texts)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of all elements of a name."""
        return [attributes for name, attributes in self.elements if name == tag]


def parsed(page: str) -> Parsed:
    """Read a page; fail if elements are not well nested."""
    found = Parsed()
    found.feed(page)
    found.close()
    assert found.open == []
    return found
