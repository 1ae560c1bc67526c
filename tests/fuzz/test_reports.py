"""`netpipe report` refuses or draws any document."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netpipe.errors import InputError
from netpipe.reporting.rendering import read_document, render_page
from tests.fuzz.mutations import damaged, mutated_json, odd_values, read_or_refuse
from tests.reporting.examples import every_document

EVERY = {name: json.loads(json.dumps(document)) for name, document in every_document().items()}
MOST = settings().max_examples


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=MOST // 5)
@given(data=st.data())
def test_it_is_refused_or_read(tmp_path: Path, name: str, data: st.DataObject) -> None:
    """No document gives a traceback, and documents that are read have only JSON numbers."""
    whole = json.dumps(EVERY[name]).encode()
    path = tmp_path / "drawn.json"
    path.write_bytes(
        data.draw(st.one_of(mutated_json(EVERY[name]).map(str.encode), damaged(whole)))
    )
    json.dumps(read_or_refuse(read_document, path), allow_nan=False)


# Drawing takes up to a second.
@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=MOST // 20)
@given(data=st.data())
def test_it_is_refused_or_drawn(tmp_path: Path, name: str, data: st.DataObject) -> None:
    """Values that fit the schema can be drawn, however odd they are."""
    path = tmp_path / "drawn.json"
    path.write_text(data.draw(odd_values(EVERY[name])))
    if document := read_or_refuse(read_document, path):
        assert render_page([document]).endswith("</html>")


def _set(document: dict[str, Any], field: str, value: object) -> None:
    *path, last = (int(part) if part.isdigit() else part for part in field.split("."))
    inner: Any = document
    for part in path:
        inner = inner[part]
    inner[last] = value


@pytest.mark.parametrize(
    ("name", "field", "value", "message"),
    [
        ("measurement", "step_s.median", 0, "step_s must contain its median"),
        ("measurement", "step_s.median", -1, "step_s must contain its median"),
        ("measurement", "step_s.median", 1e308, "JSON; found the number 1e\\+308"),
        ("measurement", "step_s.median", float("nan"), "JSON; found the number nan"),
        (
            "measurement",
            "step_s",
            {"median": 0, "low": 0, "high": 0, "n": 9},
            "step_s.median must be above 0",
        ),
        ("measurement", "step_s.median", 1e11, "step_s must contain its median"),
        ("measurement", "step_s.n", 9.0, "type integer; found 9.0"),
        ("measurement", "distributions.steps", 3.0, "type integer|one of"),
        ("measurements", "schema", "netpipe.measurements/2", "upgrade"),
        ("lint", "graph.0.parents", [0], "no cycle"),
        ("lint", "graph.0.parents", [99], "name no other node"),
        ("lint", "graph.0.id", 7, "number its nodes from 0"),
        ("lint", "findings.0.nodes", [99], "name no other node"),
        ("diagnosis", "lint.graph.0.parents", [0], "lint must .* have no cycle"),
        ("run", "lints.0.graph.0.parents", [0], r"lints\[0\] must .* have no cycle"),
        ("throughput", "combinations.0.best", False, "combinations must"),
        ("throughput", "combinations.0.tokens_per_s.median", 9e9, "contain its median"),
        ("diagnosis", "stages.0.name", "", "at least 1 char|non-empty"),
        ("diagnosis", "load_s_per_batch.median", -1, "at least 0"),
    ],
)
def test_nonsense_is_named(
    tmp_path: Path, name: str, field: str, value: object, message: str
) -> None:
    """The error says which value is wrong; a cycle hung the drawing of a graph."""
    document = json.loads(json.dumps(EVERY[name]))
    _set(document, field, value)
    path = tmp_path / "drawn.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=message):
        read_document(path)
