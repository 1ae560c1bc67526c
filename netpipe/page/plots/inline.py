"""A drawing as a part of a page: named for those who do not see it, its ids its own."""

import re
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from netpipe.page.plots.canvas import Ink

_NAMESPACE: Final = re.compile(r"^\{[^}]*\}")
_REFERENCE: Final = re.compile(r"url\(#([^)]+)\)")
_FONT: Final = re.compile(r"font-family: [^;]*;? ?")
_COLOURS: Final = re.compile("|".join(Ink))
_STROKES_OF_ALL: Final = "*{"  # matplotlib's own style sheet, which would reach the whole page


def inline(svg: str, prefix: str, title: str) -> str:
    """Return an SVG document as an element of an HTML page.

    Args:
        svg: The document.
        prefix: What tells its ids from those of all others on the page.
        title: What it shows; where the document has a title of its own, that stays.
    """
    root = ElementTree.fromstring(svg)
    _remove_sheets(root)
    for element in root.iter():
        element.tag = _NAMESPACE.sub("", element.tag)
        element.attrib = {
            _NAMESPACE.sub("", name): _own(_NAMESPACE.sub("", name), value, prefix)
            for name, value in element.attrib.items()
        }
    _scale(root)
    if root.find("title") is None:
        _name(root, prefix, title)
    return ElementTree.tostring(root, encoding="unicode")


def _remove_sheets(root: Element) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith("style") and (child.text or "").startswith(_STROKES_OF_ALL):
                parent.remove(child)


def _own(name: str, value: str, prefix: str) -> str:
    """Give the value of an attribute the page's colours, and ids that no other drawing has."""
    if name == "id":
        return prefix + value
    if name == "aria-labelledby":
        return " ".join(prefix + one for one in value.split())
    if name == "href":
        return value.replace("#", f"#{prefix}", 1)
    if name == "style":
        value = _COLOURS.sub(lambda found: f"var({Ink(found[0]).variable})", value)
        value = _FONT.sub("", value)
    return _REFERENCE.sub(rf"url(#{prefix}\1)", value)


def _scale(root: Element) -> None:
    """Let the page decide on the size; what it is drawn for is the most that it takes."""
    width = float(root.attrib["viewBox"].split()[2])
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("style", f"--drawn-width: {width:g}px")


def _name(root: Element, prefix: str, title: str) -> None:
    named = Element("title", id=f"{prefix}title")
    named.text = title
    root.insert(0, named)
    root.set("role", "img")
    root.set("aria-labelledby", f"{prefix}title")
