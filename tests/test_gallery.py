"""docs/gallery.md quotes the results that are kept beside its pages."""

import json
import re
from html import unescape
from typing import Final

import pytest

from examples.gallery.__main__ import CASES, quote, renew_quote
from tests.root_process import ROOT

FOLDER: Final = ROOT / "docs" / "gallery"
PAGE: Final = FOLDER.with_suffix(".md").read_text(encoding="utf-8")
every_case = pytest.mark.parametrize("name", CASES)


def section(name: str) -> str:
    """Return the section of the page that shows a case's picture."""
    (found,) = (part for part in PAGE.split("\n## ") if f'src="gallery/{name}.png"' in part)
    return found


def said(name: str) -> str:
    """Return the sentence of a case's result."""
    return quote(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def test_a_quoted_line_is_there() -> None:
    """The line that a forced sync names has not moved in its file since."""
    quoted = re.findall(r"(\S+\.py):(\d+) `([^`]+)`", PAGE.replace("\n> ", " "))
    assert quoted
    for path, line, code in quoted:
        lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
        assert lines[int(line) - 1].strip() == code


@every_case
def test_a_quote_is_that_of_the_result(name: str) -> None:
    """A section quotes the sentence of its result, which shows the case."""
    quoted = " ".join(re.findall(r"^> (.*)$", section(name), re.MULTILINE))
    assert quoted == said(name)
    assert all(words in quoted for words in CASES[name].shows)
    assert renew_quote(PAGE, name, said(name)) == PAGE


@every_case
def test_no_figure_is_written_by_hand(name: str) -> None:
    """A section has no figure outside its quote and its command, which is the one that ran."""
    lines = section(name).splitlines()
    assert f"    {CASES[name].command}" in lines
    prose = [line for line in lines if not line.startswith((">", "    "))]
    assert [line for line in prose if re.search(r"\d", line)] == []


@every_case
def test_a_page_shows_the_figures_of_its_result(name: str) -> None:
    """The page beside a result has every figure of its sentence."""
    page = unescape((FOLDER / f"{name}.html").read_text(encoding="utf-8"))
    figures = re.findall(r"\d[\d,.]*\d|\d", said(name))
    assert [figure for figure in figures if figure not in page] == []


def test_the_gallery_is_small() -> None:
    """The gallery has three files for each case, of less than 3 MB in all."""
    kinds = (".html", ".json", ".png")
    assert {path.name for path in FOLDER.iterdir()} == {
        f"{name}{kind}" for name in CASES for kind in kinds
    }
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 3_000_000
