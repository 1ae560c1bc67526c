"""Reads documents and renders them as one HTML page."""

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
from netpipe.files.text_files import read_json
from netpipe.printable import make_printable
from netpipe.reporting.content import Part
from netpipe.reporting.parts import SCHEMAS, build_parts
from netpipe.reporting.plots.canvas import Ink
from netpipe.results.documents import check_document, check_schema
from netpipe.results.fields import converter
from netpipe.watching.logs import is_log, read_merged
from netpipe.watching.window import Window

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The page's Content-Security-Policy: nothing may be loaded from elsewhere."""

_DRAWN_WINDOWS: Final = 100
_WAY_OUT: Final = "measure, lint, diagnose, work and throughput print such a document with --json"

_TEMPLATES: Final = Environment(
    loader=PackageLoader("netpipe.reporting"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

_NAMESPACE: Final = re.compile(r"^\{[^}]*\}")
_REFERENCE: Final = re.compile(r"url\(#([^)]+)\)")
_FONT: Final = re.compile(r"font-family: [^;]*;? ?")
_COLOURS: Final = re.compile("|".join(Ink))
# Matplotlib's style sheet, which would apply to the whole page.
_GLOBAL_STYLE: Final = re.compile(r"<style[^>]*>\*\{[^<]*</style>")


def read_document(path: Path) -> dict[str, Any]:
    """Read one of netpipe's JSON documents, or a log of netpipe.watch as one.

    Raises:
        InputError: The file is not valid.
    """
    if is_log(path):
        windows = converter().unstructure(read_merged(path, _DRAWN_WINDOWS))
        return {"schema": Window.SCHEMA, "windows": windows}
    document: dict[str, Any] = read_json(path, _WAY_OUT)
    schema = document.get("schema") if isinstance(document, dict) else None
    check_schema(schema, SCHEMAS, path, way_out=_WAY_OUT)
    check_document(document, str(schema).removeprefix("netpipe.").replace("/", "."), path)
    return document


def render_page(
    documents: Sequence[Mapping[str, Any]], *, names: Sequence[str] = (), repeat: str = ""
) -> str:
    """Return one or more documents as one HTML page that needs no other files and no network.

    Each document is valid for one of `parts.SCHEMAS`; a single document does not need a name.
    `repeat` is the command that makes the documents again; "" if it is not known.
    """
    parts: list[Part] = []
    for document, name in zip(documents, names or [""] * len(documents), strict=True):
        prefix = f"{replace_unprintable(name)}: " if name else ""
        built = build_parts(replace_unprintable(document))
        parts += (replace(part, title=f"{prefix}{part.title}") for part in built)
    numbers = count(1)
    return _TEMPLATES.get_template("page.html").render(
        parts=parts,
        repeat=replace_unprintable(repeat),
        policy=POLICY,
        version=netpipe.__version__,
        # This is safe: `inline_svg` serialises XML and so escapes text.
        inline=lambda svg, title: Markup(inline_svg(svg, f"drawing-{next(numbers)}-", title)),
    )


def inline_svg(svg: str, prefix: str, title: str) -> str:
    """Return an SVG document as an element for an HTML page, with a prefix on each id.

    The title is for screen readers; the document's own title, if it has one, takes precedence.
    """
    root = ElementTree.fromstring(_GLOBAL_STYLE.sub("", svg))
    for element in root.iter():
        element.tag = _NAMESPACE.sub("", element.tag)
        names = {_NAMESPACE.sub("", name): value for name, value in element.attrib.items()}
        element.attrib = {name: _adapt(name, value, prefix) for name, value in names.items()}
    # The page sets the size, up to the width that the drawing was made for.
    root.set("style", f"--drawn-width: {float(root.attrib['viewBox'].split()[2]):g}px")
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    if root.find("title") is None:
        described = Element("title", id=f"{prefix}title")
        described.text = title
        root.insert(0, described)
        root.set("role", "img")
        root.set("aria-labelledby", f"{prefix}title")
    return ElementTree.tostring(root, encoding="unicode")


def _adapt(name: str, value: str, prefix: str) -> str:
    """Return an attribute's value with prefixed ids and with the page's colours and font."""
    if name == "id":
        return prefix + value
    if name == "href":
        return value.replace("#", f"#{prefix}", 1)
    if name == "style":
        value = _COLOURS.sub(lambda match: f"var(--{Ink(match[0]).name.lower()})", value)
        value = _FONT.sub("", value)
    return _REFERENCE.sub(rf"url(#{prefix}\1)", value)


def replace_unprintable(value: Any) -> Any:
    """Replace characters that a page cannot contain, in all strings of a JSON value."""
    if isinstance(value, str):
        return make_printable(value)
    if isinstance(value, Mapping):
        return {replace_unprintable(key): replace_unprintable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(replace_unprintable, value))
    return value
