"""The files and commands of a document, written and run as its reader would."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FILE = r"`(?P<path>[^`\n]+)`:\n\n```(?:python|ini|yaml)\n(?P<content>.*?)^```$"
_SESSION = r"^```console\n(?P<session>.*?)^```$"
_STEP = re.compile(f"{_FILE}|{_SESSION}", re.MULTILINE | re.DOTALL)
# Figures, units and devices differ from machine to machine.
_WORD = re.compile(r"[A-Za-z][A-Za-z_-]+[A-Za-z]")


@dataclass(frozen=True)
class Ran:
    """A command, its output in the document, and its output and exit code here."""

    command: str
    shown: str
    printed: str
    code: int

    @property
    def missing(self) -> set[str]:
        """The words of the document's output that were not printed."""
        return find_words(self.shown) - find_words(self.printed)


def find_words(text: str) -> set[str]:
    """Return the words of an output, without figures and units."""
    return set(_WORD.findall(text))


def follow(text: str, folder: Path) -> Iterator[Ran]:
    """Write each file that a document shows into a folder, and run each command there, in order."""
    for step in _STEP.finditer(text):
        if step["path"]:
            write_shown(folder / step["path"], step["content"])
        else:
            for part in re.split(r"^\$ ", step["session"], flags=re.MULTILINE)[1:]:
                command, _, shown = part.partition("\n")
                yield run_shown(command, shown, folder)


def write_shown(path: Path, content: str) -> None:
    """Write a file; a single function replaces the one of its name in a file that exists."""
    lines = content.splitlines()
    body = ast.parse(content).body if path.suffix == ".py" else []
    match body:
        case [ast.FunctionDef(name=name)] if path.exists():
            old = path.read_text(encoding="utf-8")
            functions = (node for node in ast.parse(old).body if isinstance(node, ast.FunctionDef))
            (place,) = (node for node in functions if node.name == name)
            new, lines = lines, old.splitlines()
            lines[place.lineno - 1 : place.end_lineno] = new
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def run_shown(command: str, shown: str, folder: Path) -> Ran:
    """Run a command in a folder with this Python's programs, outside any other pytest run."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    author = {f"GIT_{role}_{key}": "reader@example.org"
              for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}  # fmt: skip
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=folder, env={**kept, **author, "PATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return Ran(command, shown, done.stdout, done.returncode)
