"""Parts in the templates: the only file that knows that a page is HTML."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import netpipe
from netpipe.page.content import Part
from netpipe.page.plots.inline import inline_svg
from netpipe.page.tones import SIGNS

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The page's own rule for what it loads: nothing."""


def render_parts(parts: Sequence[Part], repeat: str) -> str:
    """Return a page as HTML; the same parts give the same text.

    Args:
        parts: What stands on it, one at least.
        repeat: The command that makes it again; "" where that is not known.
    """
    template = _environment().get_template("page.html")
    return template.render(
        parts=parts,
        repeat=repeat,
        policy=POLICY,
        signs=SIGNS,
        version=netpipe.__version__,
        inline=_Inlined(),
    )


class _Inlined:
    """Puts drawings into a page and gives each ids of its own."""

    def __init__(self) -> None:
        self._prefixes: Iterator[str] = (f"drawing-{number}-" for number in count(1))

    def __call__(self, svg: str, title: str) -> Markup:
        return Markup(inline_svg(svg, next(self._prefixes), title))  # serialised as XML


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("netpipe.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
