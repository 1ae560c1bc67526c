"""The documents agree with the code, with each other and with the repository."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from math import expm1
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import unquote

import pytest
from click import Command, Group

from netpipe.cli import main
from netpipe.gate.metrics import GATED, METRICS
from netpipe.plugin.options import pytest_addoption
from netpipe.results.work_profile import KINDS
from perf_tests.studies.rule_costs.document import parse_rule_sections
from tests.root_process import ROOT
from tests.test_cli_help import parse

DOCUMENTS = sorted(
    {
        *ROOT.glob("*.md"),
        *(
            path
            for folder in ("baselines", "docs", "examples", "perf_tests", "tests")
            for path in (ROOT / folder).rglob("*.md")
        ),
    }
)
CURRENT = [path for path in DOCUMENTS if path.name != "CHANGELOG.md"]
HOW_TO = sorted((ROOT / "docs" / "howto").glob("*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")


def text_of(path: str) -> str:
    """Read one of the repository's files."""
    return (ROOT / path).read_text(encoding="utf-8")


def anchors(text: str) -> Iterator[str]:
    """Yield the anchors that GitHub makes of a document's headings."""
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        yield words.replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    """A relative link names an existing file or folder, and a heading in it."""
    for link in LINK.findall(document.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        name, _, anchor = unquote(link).partition("#")
        target = document.parent / name if name else document
        assert target.exists(), link
        if anchor:
            assert anchor in set(anchors(target.read_text(encoding="utf-8"))), link


def test_every_page_is_in_the_index() -> None:
    """The README.md of docs, and that of its how-to pages, link to every page of their folder."""
    for folder in ("docs", "docs/howto"):
        files = {path.name for path in (ROOT / folder).iterdir()} - {"README.md"}
        pages = {name for name in files if name.endswith((".md", ".ipynb"))}
        assert pages <= set(LINK.findall(text_of(f"{folder}/README.md")))


def test_contributing_names_files_that_exist() -> None:
    """Every file or folder that CONTRIBUTING.md names exists, except `<placeholders>`."""
    names = re.findall(
        r"`((?:\.github|docs|netpipe|perf_tests|tests)/[^`<]+)`", text_of("CONTRIBUTING.md")
    )
    assert names
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_readme_is_short() -> None:
    """The README has at most 600 words and 150 lines, and opens with a picture; all are small."""
    text = text_of("README.md")
    assert len(text.split()) <= 600
    assert len(text.splitlines()) <= 150
    assert "](docs/measurement-page.png)" in text.partition("\n## ")[0]
    sizes = [path.stat().st_size for path in (ROOT / "docs").glob("*.png")]
    assert 0 < max(sizes) < 200_000


def test_the_commands_of_the_page_can_be_pasted() -> None:
    """The line before the command installs the packages of this repository's pipeline."""
    pasted = re.findall(
        r"^ {4}pip install -e '\.\[(\w+)\]'\n {4}netpipe (measure .*--html .*)$",
        text_of("docs/report.md"), re.MULTILINE,
    )  # fmt: skip
    ((extra, command),) = pasted
    words = shlex.split(command)
    parse(words)
    file, _, name = words[words.index("--loader") + 1].partition(":")
    assert re.search(rf"^(?:.*, )?{name}\b.* = ", text_of(file), re.MULTILINE)
    assert f"\n{extra} = [" in text_of("pyproject.toml")


def test_the_readme_says_what_gpus_have() -> None:
    """The README states the GPU environment and gate, and that no GPU has a baseline."""
    text = " ".join(text_of("README.md").split())
    for said in ("tox -e a100 -- --netpipe-record first", "gpu.yml", "No GPU has a baseline yet"):
        assert said in text
    assert "No GPU has a baseline yet" in " ".join(text_of("docs/gpu.md").split())


def code_of(text: str) -> Iterator[str]:
    """Yield the lines of a document's code blocks, and its inline code."""
    text = text.replace("\\\n", " ").replace("\\|", "|")
    for block in re.findall(r"^```.*?\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from block.splitlines()
    yield from re.findall(r"^ {4}(\S.*)", text, re.MULTILINE)
    yield from (code.replace("\n", " ") for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", text))


def commands(text: str, program: str) -> Iterator[list[str]]:
    """Yield the arguments of a program wherever a document calls it."""
    for line in code_of(text):
        for called in re.findall(rf"(?:^|[$&;|] ?){program} (?=[a-z-])([^#&|;>]*)", line):
            yield [word.strip("[]") for word in shlex.split(called)]


@pytest.mark.parametrize("document", CURRENT, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_exists(document: Path) -> None:
    """Documents call only existing commands with existing options."""
    for words in commands(document.read_text(encoding="utf-8"), "netpipe"):
        command: Command = main
        while isinstance(command, Group) and words:
            name, *words = words
            assert name in command.commands, (name, words)
            command = command.commands[name]
        options = {name for each in command.params for name in each.opts} | {"--help"}
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        takes_others = command.context_settings.get("ignore_unknown_options", False)
        assert takes_others or given <= options, words


@pytest.mark.parametrize(
    "page", ["docs/troubleshooting.md", *(str(path.relative_to(ROOT)) for path in HOW_TO)]
)
def test_the_commands_for_symptoms_can_be_run(page: str) -> None:
    """Pages for symptoms call commands with everything that they need, T being a target."""
    for words in commands(text_of(page), "netpipe"):
        parse(["input.py:batches" if word == "T" else word for word in words])


def test_the_figures_for_symptoms_are_those_of_the_rules() -> None:
    """Where docs/troubleshooting.md says `A instead of B` and links a rule, so does its cost."""
    rules, cited = parse_rule_sections(text_of("docs/rules.md")), 0
    for part in re.split(r"\n(?=\n|- |\|)", text_of("docs/troubleshooting.md")):
        linked = re.findall(r"rules\.md#([\w-]+)", part)
        costs = re.findall(r"\d[\d,.]*", " ".join(str(rules[rule].cost) for rule in linked))
        for pair in re.findall(r"(\d[\d,.]*)[^;.\d]*\sinstead\sof\s(\d[\d,.]*\d)", part):
            assert set(pair) <= set(costs), (linked, pair)
            cited += 1
    assert cited > 3


def test_every_flag_of_pytest_exists() -> None:
    """Documents name only flags of the plugin and of this repository's fixtures."""
    named = re.findall(r"--(netpipe-[a-z-]*[a-z])", "\n".join(map(text_of, map(str, CURRENT))))
    assert set(named) <= set(flags())


def test_every_tox_environment_exists() -> None:
    """Documents call only environments of tox.ini."""
    listing = [sys.executable, "-m", "tox", "list", "--no-desc", "-q"]
    known = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for document in CURRENT:
        for words in commands(document.read_text(encoding="utf-8"), "tox"):
            if words[0] == "-e":
                assert words[1] in known.split(), (document, words)


def test_every_kind_of_work_is_documented() -> None:
    """docs/work.md has every kind of work in its table."""
    rows = re.findall(r"^\| (`.*`) \|", text_of("docs/work.md"), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) >= set(KINDS)


class RecordingParser:
    """A stand-in for pytest's parser that records the defaults of ini keys."""

    def __init__(self) -> None:
        self.defaults: dict[str, str] = {}

    def getgroup(self, *_: str) -> Any:
        """Return an option group."""
        return SimpleNamespace(addoption=lambda *_, **__: None)

    def addini(self, name: str, _: str, *, default: str) -> None:
        """Keep a key with its default."""
        self.defaults[name.replace("_", "-")] = default


def test_every_flag_is_documented_with_its_default() -> None:
    """docs/flags.md has every flag of the plugin, and its default if it has one."""
    table = re.compile(r"^\| `--(netpipe-[\w-]+)[^`]*` \|.*\|(.*)\|$", re.MULTILINE)
    documented = dict(table.findall(text_of("docs/flags.md").replace("\\|", "")))
    assert set(documented) == set(flags())
    for name, default in flags().items():
        assert default in documented[name], name


def flags() -> dict[str, str]:
    """Return the default of each flag; "" for those of this repository's fixtures."""
    parser = RecordingParser()
    pytest_addoption(cast(pytest.Parser, parser))
    return {**parser.defaults, "netpipe-data": "", "netpipe-config": ""}


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
        bound = METRICS[name].duet_bound_change
        assert fraction(row) == pytest.approx(bound if METRICS[name].is_share else expm1(bound))


def fraction(bound: str) -> float:
    """Return the number of a bound such as `3%` or `0.25 of the steps`."""
    number = bound.split()[0]
    return float(number.rstrip("%")) / (100 if number.endswith("%") else 1)
