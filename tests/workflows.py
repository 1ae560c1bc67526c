"""The commands of the repository's workflows and tox environments."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from itertools import takewhile
from pathlib import Path
from textwrap import dedent

from tests.root_process import ROOT

_RUN = re.compile(r"( *)(?:- )?run: *(.*)")
_BLOCKS = {"|": "\n", ">-": " "}


def scripts(workflow: str) -> Iterator[str]:
    """Yield the scripts of a workflow's steps, in order."""
    lines = text(workflow).splitlines()
    for number, line in enumerate(lines):
        found = _RUN.fullmatch(line)
        if found is not None:
            indent, value = found.groups()
            if value in _BLOCKS:
                value = _BLOCKS[value].join(_block(lines[number + 1 :], len(indent)))
            yield value


def _block(lines: list[str], indent: int) -> list[str]:
    """Return the lines of a block without their common indentation."""
    return dedent("\n".join(_lines_below(lines, indent))).strip().splitlines()


def _lines_below(lines: list[str], indent: int) -> list[str]:
    """Return the lines up to the first one that is not indented deeper."""
    return list(
        takewhile(lambda one: not one.strip() or len(one) - len(one.lstrip()) > indent, lines)
    )


def job(workflow: str, *keys: str) -> str:
    """Return the block below a key of a workflow, and the keys below that, as a text."""
    lines = text(workflow).splitlines()
    for depth, key in enumerate(keys):
        start = lines.index(f"{'  ' * depth}{key}:")
        lines = lines[start : start + 1] + _lines_below(lines[start + 1 :], 2 * depth)
    return "\n".join(lines)


def text(workflow: str) -> str:
    """Return a workflow's file."""
    return (ROOT / ".github" / "workflows" / workflow).read_text(encoding="utf-8")


def run_with(
    program: str, script: str, folder: Path, variables: Mapping[str, str]
) -> list[list[str]]:
    """Run a script as GitHub does with a stand-in for a program; return the program's arguments."""
    programs, words = folder.parent / "programs", folder.parent / "words"
    programs.mkdir(exist_ok=True)
    (programs / program).write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" END >>"{words}"\n')
    (programs / program).chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=folder, env={**kept, **variables, "PATH": path}, check=True,
    )  # fmt: skip
    given = words.read_text().split("END\0")[:-1] if words.exists() else []
    words.unlink(missing_ok=True)
    return [one.split("\0")[:-1] for one in given]


def _applies(factors: str, environment: str) -> bool:
    """Whether a tox.ini line with factors ("a,b" or "!a-!b") applies to an environment."""
    return any(
        all((part.removeprefix("!") == environment) != part.startswith("!") for part in parts)
        for parts in (alternative.split("-") for alternative in factors.split(","))
    )


def tox_flags(environment: str, posargs: list[str]) -> list[str]:
    """Return the flags of pytest when tox runs the performance tests in an environment."""
    settings = ConfigParser(interpolation=None)
    settings.read(ROOT / "tox.ini")
    for section in settings.sections():
        for line in settings.get(section, "commands", fallback="").splitlines():
            factors, colon, command = line.partition(": ")
            if colon and _applies(factors, environment):
                filled = command.format(env_name=environment, posargs=shlex.join(posargs))
                assert filled.startswith("pytest perf_tests ")
                return shlex.split(filled)[2:]
    raise LookupError(environment)
