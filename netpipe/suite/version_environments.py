"""The environment that another version runs in: this one's, or one of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from netpipe.errors import InputError
from netpipe.session.parent import ProcessEnvironment
from netpipe.suite.declared_dependencies import declared
from netpipe.suite.worktrees import Checkout, known_files

_PROJECT_FILES: Final = ("pyproject.toml", "setup.py", "setup.cfg")
_SHOWN_LINES: Final = 25


@dataclass(frozen=True)
class Environment:
    """What a version is run with.

    Attributes:
        python: The interpreter.
        path: What goes before its own `sys.path`.
    """

    python: str
    path: tuple[str, ...]

    def place(self, folder: Path) -> ProcessEnvironment:
        """Return a session's place in this environment."""
        return ProcessEnvironment(folder, {"PYTHONPATH": os.pathsep.join(self.path)})


def needs_its_own(checkout: Checkout, project: Path) -> bool:
    """Return whether another version declares other dependencies than this one.

    Args:
        checkout: The other version.
        project: The folder of the project here, in or below the checkout's repository.
    """
    folders = {project, checkout.commit.repository}
    return any(_declared(one) != _declared(checkout.there(one)) for one in folders)


def _declared(folder: Path) -> dict[str, object]:
    return declared(folder, known_files(folder)) if folder.is_dir() else {}


def shared(checkout: Checkout) -> Environment:
    """Return this interpreter, looking into the checkout wherever it looks into this one."""
    return Environment(sys.executable, _path(checkout, [*sys.path, *_editable_roots()]))


def own(checkout: Checkout, project: Path, folder: Path, extras: str) -> Environment:
    """Make a virtual environment and install another version into it, editable.

    Args:
        checkout: The other version.
        project: The folder of the project here.
        folder: Where the environment goes.
        extras: The extras to install with it, with commas; "" for none.

    Raises:
        InputError: It cannot be installed, or netpipe does not come with it.
    """
    there = checkout.there(project)
    made = Environment(str(folder / "bin" / "python"), _path(checkout, _given()))
    _run([sys.executable, "-m", "venv", str(folder)], checkout)
    _run([made.python, "-m", "pip", "install", "--quiet", *_to_install(there, extras)], checkout)
    _run([made.python, "-c", "import netpipe.pytest_plugin"], checkout, made.path)
    return made


def _to_install(there: Path, extras: str) -> list[str]:
    if any((there / name).is_file() for name in _PROJECT_FILES):
        return ["-e", f"{there}[{extras}]" if extras else str(there)]
    return ["-r", str(there / "requirements.txt")]


def _run(command: list[str], checkout: Checkout, path: tuple[str, ...] = ()) -> None:
    """Run what makes the environment.

    Raises:
        InputError: It failed; the message holds its last lines.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        lines = "\n".join(done.stdout.splitlines()[-_SHOWN_LINES:])
        raise InputError(
            f"--netpipe-against {checkout.commit.ref}", "its environment",
            "hold all that it declares, and netpipe",
            f"that `{' '.join(command)}` failed:\n{lines}",
            "Extras are named with --netpipe-against-extras",
        )  # fmt: skip


def _given() -> list[str]:
    return os.environ.get("PYTHONPATH", "").split(os.pathsep)


def _path(checkout: Checkout, entries: list[str]) -> tuple[str, ...]:
    """Return a search path with every entry in this checkout moved into the other one.

    Entries elsewhere stay where they stand if the user set them; the rest the interpreter knows.
    """
    moved: dict[str, None] = {}
    for entry in filter(None, entries):
        if _is_here(checkout, Path(entry)):
            there = checkout.there(Path(entry).resolve())
            if there.exists():
                moved[str(there)] = None
        elif entry in _given():
            moved[entry] = None
    return tuple(moved)


def _is_here(checkout: Checkout, entry: Path) -> bool:
    """Return whether an entry is part of this checkout's code, and no environment inside it."""
    repository = checkout.commit.repository
    environments = [
        one for one in map(Path, (sys.prefix, sys.base_prefix)) if one.is_relative_to(repository)
    ]
    installed = any(entry.is_relative_to(one) for one in environments)
    return not installed and entry.resolve().is_relative_to(repository)


def _editable_roots() -> Iterator[str]:
    """Give the folders that editable installations are imported from through hooks, not paths."""
    for distribution in metadata.distributions():
        url = json.loads(distribution.read_text("direct_url.json") or "{}")
        if not url.get("dir_info", {}).get("editable"):
            continue
        for name in (distribution.read_text("top_level.txt") or "").split():
            spec = find_spec(name)
            if spec is not None and spec.origin is not None:
                packages = spec.submodule_search_locations is not None
                yield str(Path(spec.origin).parents[1 if packages else 0])
