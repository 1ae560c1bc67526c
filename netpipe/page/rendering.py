"""Documents as one HTML page: the only module that knows that a page is HTML."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import netpipe
from netpipe.page.content import Part
from netpipe.page.parts import build_parts
from netpipe.page.plots.canvas import Ink
from netpipe.page.reading import replace_unprintable
from netpipe.whole_file import write_whole

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The page's own rule for what it may load: nothing."""

_NAMESPACE: Final = re.compile(r"^\{[^}]*\}")
_REFERENCE: Final = re.compile(r"url\(#([^)]+)\)")
_FONT: Final = re.compile(r"font-family: [^;]*;? ?")
_COLOURS: Final = re.compile("|".join(Ink))
# matplotlib's own style sheet begins with this and would apply to the whole page.
_GLOBAL_SELECTOR: Final = "*{"


def write_page(
    documents: Sequence[Mapping[str, Any]],
    path: Path,
    flag: str,
    *,
    names: Sequence[str] = (),
    repeat: str = "",
) -> None:
    """Write documents as one HTML page that needs no other file and no network.

    Args:
        documents: At least one; each fits its schema, one of `parts.SCHEMAS`.
        path: The file.
        flag: The flag that the user named the file with, for the error.
        names: A name for each document; none if there is only one.
        repeat: The command that makes the documents again; "" if it is not known.

    Raises:
        InputError: The file cannot be written.
    """
    write_whole(path, render_page(documents, names=names, repeat=repeat), flag)


def render_page(
    documents: Sequence[Mapping[str, Any]], *, names: Sequence[str] = (), repeat: str = ""
) -> str:
    """Return what `write_page` writes; the same documents give the same text."""
    parts: list[Part] = []
    for document, name in zip(documents, names or [""] * len(documents), strict=True):
        prefix = f"{replace_unprintable(name)}: " if name else ""
        built = build_parts(replace_unprintable(document))
        parts += (replace(part, title=f"{prefix}{part.title}") for part in built)
    numbers = count(1)

    def inline(svg: str, title: str) -> Markup:
        # `inline_svg` serialises XML, which escapes what needs it.
        return Markup(inline_svg(svg, f"drawing-{next(numbers)}-", title))

    templates = Environment(
        loader=PackageLoader("netpipe.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("page.html").render(
        parts=parts,
        repeat=replace_unprintable(repeat),
        policy=POLICY,
        version=netpipe.__version__,
        inline=inline,
    )


def inline_svg(svg: str, prefix: str, title: str) -> str:
    """Return an SVG document as an element of an HTML page.

    Args:
        svg: The document.
        prefix: Tells the document's ids from those of all others on the page.
        title: What the drawing shows, for screen readers; a title of the document's own takes
            precedence.
    """
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith("style") and (child.text or "").startswith(_GLOBAL_SELECTOR):
                parent.remove(child)
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
        element = Element("title", id=f"{prefix}title")
        element.text = title
        root.insert(0, element)
        root.set("role", "img")
        root.set("aria-labelledby", f"{prefix}title")
    return ElementTree.tostring(root, encoding="unicode")


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
