"""Reading and updating docs/rules.md."""

from perf_tests.studies.rule_costs.document import (
    Block,
    parse_rule_sections,
    parse_sections,
    replace_costs,
)

TEXT = """# Rules

Costs: theirs.

## Shared

```python
import os
```

## one-rule

Severity: error for throughput, info for reproducible.

Wrong:

```python
a = 1
b = 2
```

Right:

```python
c = 3
```

Cost: 1.5 s, and more.

## other-rule

Severity: warning.

Cost: nothing yet.
"""


def test_a_section_has_its_severities_blocks_and_cost() -> None:
    """Everything that the tests and the benchmark need is read."""
    section = parse_sections(TEXT)["one-rule"]
    assert section.severities == {"throughput": "error", "reproducible": "info"}
    assert section.block("wrong") == Block("python", "a = 1\nb = 2\n", line=18)
    assert section.block("right") == Block("python", "c = 3\n", line=25)
    assert section.cost == "1.5 s, and more"


def test_a_blocks_line_is_where_it_stands() -> None:
    """A block knows its line in the document."""
    lines = TEXT.splitlines()
    for section in parse_sections(TEXT).values():
        for block in section.blocks:
            assert lines[block.line - 1] == block.code.splitlines()[0]


def test_a_section_without_a_severity_is_not_a_rule() -> None:
    """A severity may hold for both intents."""
    assert list(parse_sections(TEXT)) == ["Shared", "one-rule", "other-rule"]
    rules = parse_rule_sections(TEXT)
    assert list(rules) == ["one-rule", "other-rule"]
    assert rules["other-rule"].severities == {"throughput": "warning", "reproducible": "warning"}


def test_costs_are_renewed_in_their_sections() -> None:
    """Each rule's line gets that rule's cost, inserted literally."""
    renewed = replace_costs(TEXT, {"one-rule": r"\1 a", "other-rule": "b"}.__getitem__, "ours")
    expected = TEXT.replace("1.5 s, and more", r"\1 a").replace("nothing yet", "b")
    assert renewed == expected.replace("Costs: theirs.", "Costs: ours.")
