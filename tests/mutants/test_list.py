"""The list of mutants fits the code."""

import pytest

from tests.mutants.__main__ import ROOT, read_mutants


@pytest.mark.parametrize("mutant", read_mutants([]), ids=lambda mutant: mutant["what"])
def test_a_mutant_changes_one_place(mutant: dict[str, str]) -> None:
    """The text of a mutant occurs once in its file, and its tests exist."""
    assert (ROOT / mutant["file"]).read_text().count(mutant["old"]) == 1
    assert mutant["new"] != mutant["old"]
    assert all((ROOT / name.partition("::")[0]).exists() for name in mutant["tests"].split())
