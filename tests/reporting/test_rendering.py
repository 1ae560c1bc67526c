"""Pages are complete, reproducible, and safe for any names."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from netpipe.reporting.rendering import POLICY, render_page, replace_unprintable
from tests.reporting.examples import HOSTILE, every_document, lint, measurement, run
from tests.reporting.parsed import parsed

EVERY = every_document()
WORDS = (
    "by", "intent", "key", "kind", "lane", "metric", "name", "outcome", "platform", "quantity",
    "resource", "rule", "schema", "section", "severity", "tokens_unit",
)  # fmt: skip
"""Fields whose values netpipe itself chooses."""


@cache
def render(name: str) -> str:
    """Return the page of a document, rendered once."""
    return render_page([EVERY[name]])


@pytest.mark.parametrize("name", EVERY)
def test_every_document_becomes_a_page(name: str) -> None:
    """A page is well nested, has one top heading, and refuses to fetch anything."""
    found = parsed(render(name))
    assert len(found.named("h1")) == 1
    assert {"http-equiv": "Content-Security-Policy", "content": POLICY} in found.named("meta")
    assert not {"script", "img", "link", "iframe", "object"} & {tag for tag, _ in found.elements}


@pytest.mark.parametrize("name", EVERY)
def test_no_element_is_empty(name: str) -> None:
    """A document without some values leaves no empty card, head or list."""
    text = render(name)
    for empty in ("<h3></h3>", "<tbody>\n</tbody>", "<ul>\n</ul>", "<dl>\n</dl>", "None<", ">nan"):
        assert empty not in text


@pytest.mark.parametrize("name", ["diagnosis", "lint", "run"])  # drawings of all kinds
def test_the_same_documents_give_the_same_bytes(name: str) -> None:
    """The same document gives the same page."""
    assert render_page([EVERY[name]]) == render(name)


@pytest.mark.parametrize("name", EVERY)
def test_code_stays_text(name: str) -> None:
    """A name with tags, quotes, mathematics and control characters is shown, and runs nothing."""
    found = parsed(render_page([hostile(EVERY[name])], names=[HOSTILE], repeat=HOSTILE))
    assert HOSTILE.partition(" \x07")[0] in found.text
    assert not found.named("img")
    assert not any("onerror" in attributes for _, attributes in found.elements)


def hostile(document: Mapping[str, Any]) -> dict[str, Any]:
    """Put the hostile name into every free text of a document."""
    found: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, str) and key not in WORDS:
            found[key] = HOSTILE
        elif isinstance(value, dict):
            found[key] = hostile(value)
        elif isinstance(value, list):
            found[key] = [hostile(item) if isinstance(item, dict) else item for item in value]
        else:
            found[key] = value
    return found


def test_unprintable_characters_are_replaced() -> None:
    """Control characters, lone surrogates and direction marks are replaced."""
    replaced = replace_unprintable({"a\x00": ["b\ud800", {"c": "d\u202e"}, 1, None, True]})
    assert replaced == {"a�": ["b�", {"c": "d�"}, 1, None, True]}


def test_each_of_several_documents_is_a_part() -> None:
    """Each document is a part with a link and its given name."""
    found = parsed(render_page([measurement(), lint()], names=["a.json", "b.json"]))
    assert [article["id"] for article in found.named("article")] == ["part-1", "part-2"]
    assert [link["href"] for link in found.named("a")] == ["#part-1", "#part-2"]
    assert "a.json: h200-x1" in found.texts
    assert any(text.startswith("b.json: ") for text in found.texts)


def test_drawings_say_what_they_show() -> None:
    """Each drawing is a named image, and all ids of a page are unique."""
    found = parsed(render_page([measurement(), run()]))
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    drawings = found.named("svg")
    assert len(drawings) > 5
    assert len(ids) == len(set(ids))
    for drawing in drawings:
        assert drawing["role"] == "img"
        named = (drawing.get("aria-labelledby") or "").split()
        assert drawing.get("aria-label") or (named and set(named) <= set(ids))


def test_a_pipeline_has_the_background_of_the_page() -> None:
    """The background of a drawing is not filled."""
    text = render("lint")
    (suffix,) = re.findall(r'\.card svg \[class\$="([\w-]+)"\] \{ fill: none; \}', text)
    rectangles = parsed(text).named("rect")
    assert any(str(each.get("class")).endswith(suffix) for each in rectangles)
