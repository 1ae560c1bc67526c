"""docs/try.ipynb runs, and prints what its text says."""

import json
import os
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.root_process import ROOT

NOTEBOOK = ROOT / "docs" / "try.ipynb"
takes_minutes = pytest.mark.skipif(
    os.environ.get("TOX_ENV_NAME") != "notebook", reason="tox -e notebook runs this test"
)


def printed(cell: Mapping[str, Any]) -> str:
    """Return the text that a cell printed."""
    streams = (output for output in cell["outputs"] if output["output_type"] == "stream")
    text = "".join("".join(one["text"]) for one in streams if one["name"] == "stdout")
    return " ".join(text.split())


def check(notebook: Mapping[str, Any]) -> None:
    """Fail unless every cell ran, and printed each bold word of the text that follows it."""
    last, pages, claims = "", 0, []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            bold = re.findall(r"\*\*(.+?)\*\*", "".join(cell["source"]))
            assert all(words in last for words in bold), (bold, last)
            claims += bold
            continue
        assert cell["execution_count"], cell["source"]
        outputs = cell["outputs"]
        assert [one for one in outputs if one["output_type"] == "error"] == []
        last = printed(cell) or last
        results = [one["data"] for one in outputs if one["output_type"] == "execute_result"]
        pages += sum("".join(data["text/html"]).startswith("<iframe") for data in results)
        assert len(results) == len(outputs) - bool(printed(cell)), "a cell shows nothing else"
    assert (claims, pages) == (["loader-bound", "Map of pipeline.calibrate", "healthy"], 1)


def test_the_saved_outputs_agree_with_the_text() -> None:
    """The notebook's outputs are those that its text names, and took less than three minutes."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    check(notebook)
    ran = [cell["metadata"]["execution"] for cell in notebook["cells"] if "outputs" in cell]
    begins, ends = ran[0]["iopub.execute_input"], ran[-1]["shell.execute_reply"]
    taken = datetime.fromisoformat(ends) - datetime.fromisoformat(begins)
    assert 0 < taken.total_seconds() < 180


@takes_minutes
def test_the_notebook_runs(tmp_path: Path) -> None:
    """Its code runs in an empty folder, with the results that the text names.

    An open verdict on a busy machine skips the test.
    """
    from nbclient import NotebookClient
    from nbformat import read

    notebook = read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    texts = [printed(cell) for cell in notebook.cells if cell.cell_type == "code"]
    if "use a less busy machine" in " ".join(texts):
        pytest.skip("other programs are too busy")
    check(notebook)
