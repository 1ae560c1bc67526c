"""The documents agree with the code, with each other and with the repository."""

import re
from collections.abc import Iterator
from math import expm1
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import unquote

import pytest
from click import Group

from netpipe.cli import main
from netpipe.gate.metrics import GATED, METRICS, ONCE
from netpipe.results.work_profile import KINDS
from netpipe.suite.options import pytest_addoption
from tests.root_process import ROOT

DOCUMENTS = sorted(
    {
        *ROOT.glob("*.md"),
        *(
            path
            for folder in ("baselines", "docs", "examples")
            for path in (ROOT / folder).rglob("*.md")
        ),
    }
)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def text_of(path: str) -> str:
    """Read one of the repository's files."""
    return (ROOT / path).read_text(encoding="utf-8")


def anchors(text: str) -> Iterator[str]:
    """Give the anchors that GitHub makes of a document's headings."""
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        yield words.replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    """A relative link names a file or folder that is there, and a heading in it."""
    for link in LINK.findall(document.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        name, _, anchor = unquote(link).partition("#")
        target = document.parent / name if name else document
        assert target.exists(), link
        if anchor:
            assert anchor in set(anchors(target.read_text(encoding="utf-8"))), link


def test_every_page_is_in_the_index() -> None:
    """docs/README.md links to every page of its folder."""
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages <= set(LINK.findall(text_of("docs/README.md")))


def test_contributing_names_files_that_exist() -> None:
    """Every file or folder that CONTRIBUTING.md names is there, except `<placeholders>`."""
    names = re.findall(
        r"`((?:\.github|docs|netpipe|perf_tests|tests)/[^`<]+)`", text_of("CONTRIBUTING.md")
    )
    assert names
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_readme_is_short() -> None:
    """The README has at most 150 lines, and its picture less than 200 kB."""
    assert len(text_of("README.md").splitlines()) <= 150
    assert (ROOT / "docs" / "measurement-page.png").stat().st_size < 200_000


def test_every_command_is_documented() -> None:
    """docs/commands.md has every command of the command line."""
    assert isinstance(main, Group)
    documented = set(
        re.findall(r"^\| `netpipe ([\w-]+)", text_of("docs/commands.md"), re.MULTILINE)
    )
    assert documented == set(main.commands)


def test_every_kind_of_work_is_documented() -> None:
    """docs/work.md has every kind of work in its table."""
    rows = re.findall(r"^\| (`.*`) \|", text_of("docs/work.md"), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) >= set(KINDS)


class RecordingParser:
    """Stands for pytest's parser, and keeps the defaults of the ini keys."""

    def __init__(self) -> None:
        self.defaults: dict[str, str] = {}

    def getgroup(self, *_: str) -> Any:
        """Return something that takes options."""
        return SimpleNamespace(addoption=lambda *_, **__: None)

    def addini(self, name: str, _: str, *, default: str) -> None:
        """Keep a key with its default."""
        self.defaults[name.replace("_", "-")] = default


def test_every_flag_is_documented_with_its_default() -> None:
    """docs/flags.md has every flag of the plugin, and the default of those that have one."""
    table = re.compile(r"^\| `--(netpipe-[\w-]+)[^`]*` \|.*\|(.*)\|$", re.MULTILINE)
    documented = dict(table.findall(text_of("docs/flags.md").replace("\\|", "")))
    parser = RecordingParser()
    pytest_addoption(cast(pytest.Parser, parser))
    assert set(documented) == {*parser.defaults, "netpipe-data", "netpipe-config"}
    for name, default in parser.defaults.items():
        assert default in documented[name], name


def test_the_bounds_of_the_gate_are_documented() -> None:
    """docs/gate.md and docs/against.md state the bound of every metric as the gate applies it."""
    rows = re.findall(
        r"^\|[^|]*\| `(\w+)`: [^|]+\|([^|]+)\|", text_of("docs/gate.md"), re.MULTILINE
    )
    bounds = {name: fraction(bound) for name, bound in rows}
    assert bounds == {metric.name: metric.bound for metrics in GATED.values() for metric in metrics}
    against = text_of("docs/against.md")
    for name in bounds:
        (row,) = re.findall(rf"^\|.*`{name}`.*\|(.+)\|$", against, re.MULTILINE)
        if METRICS[name] in ONCE:
            assert row.strip().startswith("NOT_COMPARED")
            continue
        bound = METRICS[name].duet_bound_change
        assert fraction(row) == pytest.approx(bound if METRICS[name].is_share else expm1(bound))


def fraction(bound: str) -> float:
    """Return the number of a bound such as `3%` or `0.25 of the steps`."""
    number = bound.split()[0]
    return float(number.rstrip("%")) / (100 if number.endswith("%") else 1)
