"""Examples as loader factories."""

import traceback

import pytest

from perf_tests.studies.rule_costs.document import Block
from perf_tests.studies.rule_costs.examples import Example, Setting

SHARED = Block("python", "import grain\nBATCH = 32\nROWS = 5\nWORKERS = None\n", 3)
NAMES = """
def pipeline():
    return BATCH, ROWS, PYTHON_S_PER_ROW, WORKERS.num_workers
"""


def made(code: str) -> Example:
    """An example of some code, on line 20 of the document."""
    return Example(SHARED, Block("python", code, 20))


def test_a_setting_replaces_what_the_examples_share() -> None:
    """The same example runs under several settings."""
    setting = Setting(batch=7, python_s_per_row=0.25, rows=11, workers=3)
    assert made(NAMES).loader(setting)() == (7, 11, 0.25, 3)


def test_a_failing_example_is_found_in_the_document() -> None:
    """The traceback names the document and the line in it."""
    with pytest.raises(ZeroDivisionError) as caught:
        made("def pipeline():\n    return 1 / 0\n").loader()()
    last = traceback.extract_tb(caught.tb)[-1]
    assert last.filename.endswith("docs/rules.md")
    assert last.lineno == 21
