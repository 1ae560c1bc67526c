"""The pytest plugin: its options, fixtures and markers."""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, cast

import pytest

from netpipe import pytest_plugin
from tests.outside.golden import check_lines


class RecordingParser:
    """A stand-in for pytest's parser and option group that records additions."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def getgroup(self, *_: str) -> "RecordingParser":
        """Return an option group."""
        return self

    def addoption(self, *names: str, **given: Any) -> None:
        """Describe a flag."""
        kept = {"default": None} | given
        known = (f"{key} {kept[key]}" for key in sorted(kept.keys() - _WORDING))
        self.lines.append(f"flag {' '.join(names)}: {', '.join(known)}")

    def addini(self, name: str, _: str, kind: str = "string", default: Any = None) -> None:
        """Describe an ini key."""
        self.lines.append(f"ini {name}: {kind}, default {default!r}")


_WORDING = {"help", "metavar", "dest"}


def list_fixtures_and_markers(pytester: pytest.Pytester) -> Iterator[str]:
    """Yield the public fixtures with their scopes, and the markers, as pytest lists them."""
    flags = ("--markers", "--fixtures")
    runs = [pytester.runpytest_inprocess(flag, "-p", "no:hypothesispytest") for flag in flags]
    for line in chain.from_iterable(run.outlines for run in runs):
        if found := re.match(r"@pytest.mark.(netpipe.*?): ", line):
            yield f"marker {found[1]}"
        if found := re.match(r"(netpipe_\w+)(?: \[(\w+) scope\])? -- ", line):
            yield f"fixture {found[1]}: {found[2] or 'function'}"


def test_the_plugin_keeps_its_options_fixtures_and_markers(pytester: pytest.Pytester) -> None:
    """A project's command lines, ini files, tests and conftest files keep working."""
    parser = RecordingParser()
    vars(pytest_plugin)["pytest_addoption"](cast(pytest.Parser, parser))
    check_lines("pytest", sorted([*parser.lines, *list_fixtures_and_markers(pytester)]))
