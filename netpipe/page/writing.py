"""A page as a file."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from netpipe.page.content import Part
from netpipe.page.parts.registry import build_parts
from netpipe.page.reading import replace_unprintable
from netpipe.page.rendering import render_parts
from netpipe.whole_file import write_whole


def write_page(
    documents: Sequence[Mapping[str, Any]],
    path: Path,
    flag: str,
    *,
    names: Sequence[str] = (),
    repeat: str = "",
) -> None:
    """Write one HTML page of some documents, that needs no other file and no network.

    Args:
        documents: Each fits the schema that it names, one of `every.SCHEMAS`; one at least.
        path: The file.
        flag: Where the user chose it, for the error.
        names: What to call each of the documents, where there are several.
        repeat: The command that makes them again; "" where that is not known.

    Raises:
        InputError: The file cannot be written.
    """
    write_whole(path, page(documents, names=names, repeat=repeat), flag)


def page(
    documents: Sequence[Mapping[str, Any]], *, names: Sequence[str] = (), repeat: str = ""
) -> str:
    """Return what `write_page` writes; the same documents give the same text."""
    each = [build_parts(replace_unprintable(one)) for one in documents]
    if names:
        each = [
            _named(parts, replace_unprintable(name))
            for parts, name in zip(each, names, strict=True)
        ]
    return render_parts(tuple(chain.from_iterable(each)), replace_unprintable(repeat))


def _named(parts: tuple[Part, ...], name: str) -> tuple[Part, ...]:
    return tuple(replace(one, title=f"{name}: {one.title}") for one in parts)
