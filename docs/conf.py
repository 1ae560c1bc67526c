"""The site, built from the repository's Markdown files; docs/README.md is its table of contents."""

import re
from pathlib import Path
from shutil import copytree
from typing import Any

project = "netpipe"
author = "the netpipe authors"
copyright = "the netpipe authors"
extensions = ["myst_nb"]
# tox -e notebook runs it.
nb_execution_mode = "off"
html_theme = "sphinx_book_theme"
html_title = "netpipe"
html_extra_path = ["index.html"]
root_doc = "docs/README"
# docs/gallery.md links its pages, which are complete.
GALLERY = "docs/gallery"
# These pages list others, which belong below them.
indexes = ["docs/howto/README", "perf_tests/studies/README"]
include_patterns = [
    "*.md",
    "baselines/README.md",
    "docs/**.md",
    "docs/try.ipynb",
    "examples/**.md",
    "perf_tests/**.md",
    "tests/zoo/README.md",
]
# Links to headings use GitHub's names for them.
myst_heading_anchors = 4
# Some pages are reached only by links in others.
suppress_warnings = ["myst.header", "toc.not_included"]


def list_pages(text: str) -> str:
    """Return a hidden table of contents of the pages that the text links, by its bold headings."""
    trees = []
    for part in re.split(r"\n(?=\*\*)", text):
        links = dict.fromkeys(re.findall(r"\]\(([\w./-]+)\.(?:md|ipynb)", part))
        caption = re.match(r"\*\*(.+?)\*\*", part)
        named = [f":caption: {caption[1]}"] if caption else []
        if links:
            trees += ["```{toctree}", ":hidden:", *named, "", *links, "```"]
    return "\n".join(trees)


def setup(app: Any) -> None:
    """Add tables of contents to the indexes when Sphinx reads them; copy the gallery at the end."""

    def add_pages(_: Any, name: str, source: list[str]) -> None:
        if name == root_doc:
            source[0] += f"\n{list_pages(source[0])}\n"
        elif name in indexes:  # Their other links lead back to pages of the root.
            own = re.sub(r"\]\(\.\./[^)]*\)", "]", source[0])
            source[0] += f"\n{list_pages(own)}\n"

    def copy_gallery(*_: Any) -> None:
        copytree(Path(app.srcdir, GALLERY), Path(app.outdir, GALLERY), dirs_exist_ok=True)

    app.connect("source-read", add_pages)
    app.connect("build-finished", copy_gallery)
