"""An SVG document as an element of a page, with a name for screen readers and ids of its own."""

import re
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from netpipe.page.plots.canvas import Ink

_NAMESPACE: Final = re.compile(r"^\{[^}]*\}")
_REFERENCE: Final = re.compile(r"url\(#([^)]+)\)")
_FONT: Final = re.compile(r"font-family: [^;]*;? ?")
_COLOURS: Final = re.compile("|".join(Ink))
# matplotlib's own style sheet begins with this and would apply to the whole page.
_GLOBAL_SELECTOR: Final = "*{"


def inline_svg(svg: str, prefix: str, title: str) -> str:
    """Return an SVG document as an element of an HTML page.

    Args:
        svg: The document.
        prefix: Tells the document's ids from those of all others on the page.
        title: What the drawing shows; a title of the document's own takes precedence.
    """
    root = ElementTree.fromstring(svg)
    _remove_global_styles(root)
    for element in root.iter():
        element.tag = _NAMESPACE.sub("", element.tag)
        names = {_NAMESPACE.sub("", name): value for name, value in element.attrib.items()}
        element.attrib = {name: _adapt(name, value, prefix) for name, value in names.items()}
    # The page decides on the size, up to the width that the drawing was made for.
    width = float(root.attrib["viewBox"].split()[2])
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("style", f"--drawn-width: {width:g}px")
    if root.find("title") is None:
        _add_title(root, prefix, title)
    return ElementTree.tostring(root, encoding="unicode")


def _remove_global_styles(root: Element) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith("style") and (child.text or "").startswith(_GLOBAL_SELECTOR):
                parent.remove(child)


def _adapt(name: str, value: str, prefix: str) -> str:
    """Return the value of an attribute with prefixed ids and the page's colours and font."""
    if name == "id":
        return prefix + value
    if name == "aria-labelledby":
        return " ".join(prefix + reference for reference in value.split())
    if name == "href":
        return value.replace("#", f"#{prefix}", 1)
    if name == "style":
        value = _COLOURS.sub(lambda match: f"var({Ink(match[0]).variable})", value)
        value = _FONT.sub("", value)
    return _REFERENCE.sub(rf"url(#{prefix}\1)", value)


def _add_title(root: Element, prefix: str, title: str) -> None:
    element = Element("title", id=f"{prefix}title")
    element.text = title
    root.insert(0, element)
    root.set("role", "img")
    root.set("aria-labelledby", f"{prefix}title")
