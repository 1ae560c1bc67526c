"""The site, built from the repository's Markdown files; docs/README.md is its table of contents."""

import re
from typing import Any

project = "netpipe"
copyright = "the netpipe authors"
extensions = ["myst_nb"]
# tox -e notebook runs it.
nb_execution_mode = "off"
html_theme = "sphinx_book_theme"
html_title = "netpipe"
html_extra_path = ["index.html"]
root_doc = "docs/README"
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
    """Add tables of contents when Sphinx reads the root page and the other indexes."""

    def add_pages(_: Any, name: str, source: list[str]) -> None:
        if name == root_doc:
            source[0] += f"\n{list_pages(source[0])}\n"
        elif name in indexes:  # Their other links lead back to pages of the root.
            own = re.sub(r"\]\(\.\./[^)]*\)", "]", source[0])
            source[0] += f"\n{list_pages(own)}\n"

    app.connect("source-read", add_pages)
