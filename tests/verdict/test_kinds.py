"""Every kind of verdict is listed wherever kinds are listed."""

import re
from pathlib import Path

from netpipe.reporting.tones import BY_VERDICT
from netpipe.verdict.kinds import VerdictKind

DOCS = Path(__file__).parents[2] / "docs"
KINDS = {kind.value for kind in VerdictKind}


def test_the_page_has_a_tone_for_each_kind() -> None:
    """Every kind has a tone, without which the page would fail."""
    assert set(BY_VERDICT) == KINDS


def test_the_docs_describe_exactly_the_kinds() -> None:
    """The table in docs/verdicts.md names every kind and no other."""
    text = (DOCS / "verdicts.md").read_text()
    table = re.search(r"^\| verdict \|.*?\n\n", text, re.MULTILINE | re.DOTALL)
    assert table is not None
    rows = table[0].strip().splitlines()[2:]
    assert {row.split("|")[1].strip() for row in rows} == KINDS
