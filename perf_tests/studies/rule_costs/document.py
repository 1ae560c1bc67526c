"""docs/rules.md: its sections, and its cost lines."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

ROOT: Final = Path(__file__).parents[3]
RULES_DOCUMENT: Final = ROOT / "docs" / "rules.md"
SHARED: Final = "The shared part of the examples"
SILENCING: Final = "Silencing a rule"
_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^```(python|toml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SEVERITY: Final = re.compile(
    r"^Severity: (\w+)(?: for throughput, (\w+) for reproducible)?\.", re.MULTILINE
)
_COST: Final = re.compile(r"^Cost: (.*)\.$", re.MULTILINE)
_ORIGIN: Final = re.compile(r"^Costs: .*$", re.MULTILINE)

Form = Literal["wrong", "right"]


@dataclass(frozen=True)
class Block:
    """One block of code, "python" or "toml", and the line of the document where it starts."""

    language: str
    code: str
    line: int


@dataclass(frozen=True)
class Section:
    """One section of the document.

    Attributes:
        title: The heading: the rule's name.
        severities: By intent.
        blocks: In order; a rule has the wrong example and the right one.
        cost: The text of its "Cost: ..." line without the full stop; None without such a line.
    """

    title: str
    severities: Mapping[str, str]
    blocks: tuple[Block, ...]
    cost: str | None

    def block(self, form: Form) -> Block:
        """Return one of a rule's two examples."""
        wrong, right = self.blocks
        return wrong if form == "wrong" else right


def parse_sections(text: str) -> dict[str, Section]:
    """Parse all sections of the document, by title."""
    headings = list(_HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    found = (
        _parse_section(heading[1], text, heading.end(), end)
        for heading, end in zip(headings, ends, strict=True)
    )
    return {section.title: section for section in found}


def parse_rule_sections(text: str) -> dict[str, Section]:
    """Parse the sections about rules: those that state a severity."""
    return {title: section for title, section in parse_sections(text).items() if section.severities}


def replace_costs(text: str, cost_of: Callable[[str], str], origin: str) -> str:
    """Return the document with the origin of the costs, and each cost line from `cost_of`."""

    def replace(section: re.Match[str]) -> str:
        return _COST.sub(lambda _: f"Cost: {cost_of(section[1])}.", section[0])

    text = _ORIGIN.sub(lambda _: f"Costs: {origin}.", text)
    return re.sub(r"^## (\S+)$.*?(?=^## |\Z)", replace, text, flags=re.MULTILINE | re.DOTALL)


def _parse_section(title: str, text: str, start: int, end: int) -> Section:
    content = text[start:end]
    cost, severity = _COST.search(content), _SEVERITY.search(content)
    intents = (
        {"throughput": severity[1], "reproducible": severity[2] or severity[1]} if severity else {}
    )
    return Section(
        title=title,
        severities=intents,
        blocks=tuple(
            Block(block[1], block[2], text.count("\n", 0, start + block.start(2)) + 1)
            for block in _BLOCK.finditer(content)
        ),
        cost=cost[1] if cost else None,
    )
