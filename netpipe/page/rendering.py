"""Documents as one HTML page: the only module that knows that a page is HTML."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import netpipe
from netpipe.page.content import Part
from netpipe.page.parts.registry import build_parts
from netpipe.page.plots.inline import inline_svg
from netpipe.page.reading import replace_unprintable
from netpipe.page.tones import SIGNS
from netpipe.whole_file import write_whole

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The page's own rule for what it may load: nothing."""


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
        documents: At least one; each fits its schema, one of `registry.SCHEMAS`.
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

    return (
        _environment()
        .get_template("page.html")
        .render(
            parts=parts,
            repeat=replace_unprintable(repeat),
            policy=POLICY,
            signs=SIGNS,
            version=netpipe.__version__,
            inline=inline,
        )
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("netpipe.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
