"""Examples as loader factories."""

import traceback
from typing import Any

import pytest

from perf_tests.studies.rule_costs import examples
from perf_tests.studies.rule_costs.document import SHARED as SHARED_TITLE
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


def test_the_documents_own_values_hold_without_a_setting() -> None:
    """The code that runs is the code on the page."""
    assert made("def pipeline():\n    return BATCH, ROWS\n").loader()() == (32, 5)


def test_a_setting_replaces_what_the_examples_share() -> None:
    """The same example runs under several settings."""
    setting = Setting(batch=7, python_s_per_row=0.25, rows=11, workers=3)
    assert made(NAMES).loader(setting)() == (7, 11, 0.25, 3)


def test_every_loader_is_a_fresh_one() -> None:
    """Globals of one run are not visible in the next."""
    example = made("seen = []\ndef pipeline():\n    seen.append(1)\n    return len(seen)\n")
    assert [example.loader()(), example.loader()()] == [1, 1]


def test_a_failing_example_is_found_in_the_document() -> None:
    """The traceback names the document and the line in it."""
    with pytest.raises(ZeroDivisionError) as caught:
        made("def pipeline():\n    return 1 / 0\n").loader()()
    last = traceback.extract_tb(caught.tb)[-1]
    assert last.filename.endswith("docs/rules.md")
    assert last.lineno == 21


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (Setting(32, 0.0004), "at 0.4 ms of Python per element and batches of 32"),
        (Setting(256), "at batches of 256"),
        (Setting(8, read_s=0.05), "at reads that wait 50 ms and batches of 8"),
    ],
)
def test_a_setting_in_words(setting: Setting, words: str) -> None:
    """A setting is written to follow a unit."""
    assert str(setting) == words


def test_the_document_is_read_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """A changed example is read again."""
    document = tmp_path / "rules.md"
    monkeypatch.setattr(examples, "RULES_DOCUMENT", document)
    block = "```python\ndef pipeline():\n    return {}\n```\n"
    shared = f"## {SHARED_TITLE}\n\n```python\n```\n"
    for answer in (1, 2):
        rule = f"## a-rule\n\n{block.format(answer)}\n{block.format(-answer)}"
        document.write_text(f"{shared}\n{rule}")
        assert examples.load_example("a-rule", "wrong").loader()() == answer
        assert examples.load_example("a-rule", "right").loader()() == -answer
