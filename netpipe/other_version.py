"""Another version of this project, ready to run: its code, and an environment to run it in."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeVar

from netpipe.errors import InputError
from netpipe.files.paths import exists
from netpipe.files.temporary_folders import temporary_folder
from netpipe.git import git
from netpipe.jobs.parent import ProcessEnvironment
from netpipe.jobs.request import SessionRequest
from netpipe.worktrees import Checkout, Commit, check_out, declares_other_dependencies

TYPED_VARIABLE: Final = "NETPIPE_AGAINST_TYPED"
"""The variable with the ref as the user of `netpipe ab` typed it; the flag gets its hash."""

_NO_DATA: Final = re.compile(
    r"\..*|__pycache__|build|dist|node_modules|.*\.(egg-info|py|pyc|so)", re.IGNORECASE
)
"""Matches ignored files and folders that are hidden, contain code, or are made by tools."""

_PROJECT_FILES: Final = ("pyproject.toml", "setup.py", "setup.cfg")
_MAX_LOG_LINES: Final = 25

_Request = TypeVar("_Request", bound=SessionRequest)


@dataclass(frozen=True)
class Version:
    """Another version of the project, and the interpreter that runs it.

    Attributes:
        path: Folders to put before the interpreter's own `sys.path`.
        others: The other checkouts of the repository at the time this one was made.
    """

    checkout: Checkout
    python: str
    path: tuple[str, ...]
    others: tuple[str, ...] = ()

    def place(self, folder: Path) -> ProcessEnvironment:
        """Return the environment to run the other version in, if this one runs in `folder`."""
        there = self.checkout.locate(folder.resolve())
        variables = {"PYTHONPATH": os.pathsep.join(self.path)}
        return ProcessEnvironment(there if there.is_dir() else self.checkout.folder, variables)

    def request_here(self, request: _Request) -> _Request:
        """Return a request that runs the code of this version, and of no other checkout."""
        here, there = self.checkout.commit.repository, self.checkout.folder
        folders = (*self.others, str(there))
        not_from = tuple(folder for folder in folders if Path(folder).resolve() != here)
        return replace(request, code_from=str(here), not_from=not_from)

    def request_there(self, request: _Request) -> _Request:
        """Return a request that runs the code of the other version, and of no other checkout.

        Raises:
            InputError: A target is a file outside the repository, so both versions would run it.
        """
        repository = self.checkout.commit.repository
        for role, target in request.targets.items():
            is_file = target.where.endswith(".py") and exists(Path(target.where))
            if is_file and not Path(target.where).resolve().is_relative_to(repository):
                constraint, way_out = f"be in {repository}", "Add it to the repository"
                raise InputError(role, "file", constraint, target.where, way_out)
        return replace(request, code_from=str(self.checkout.folder), not_from=self.others)

    def move_paths(self, words: Sequence[str], folder: Path) -> list[str]:
        """Return the words of a command with each path in this checkout moved into the other.

        A file that only this version has, such as data, is not moved; a test always is. Relative
        paths start from `folder`.
        """
        return [self._move_path(word, folder.resolve()) for word in words]

    def _move_path(self, word: str, folder: Path) -> str:
        flag, equals, value = word.rpartition("=") if word.startswith("-") else ("", "", word)
        path, colons, name = value.partition("::")
        here = folder / path
        there = self.checkout.locate(here)
        if not path or not (colons or exists(here)):
            return word
        if not colons and not exists(there):
            there = here
        elif not Path(path).is_absolute():
            return word
        return f"{flag}{equals}{there}{colons}{name}"


@contextmanager
def open_version(
    commit: Commit, project: Path, extras: str, report_progress: Callable[[str], None]
) -> Iterator[Version]:
    """Check out a commit and yield it with an environment; remove what was made at the end.

    `project` is the folder of the project here; `extras` are installed with it if it needs an
    environment of its own.

    Raises:
        InputError: The commit cannot be checked out, or its environment cannot be made.
    """
    with temporary_folder("against") as made, check_out(commit, made / "checkout") as checkout:
        if declares_other_dependencies(checkout, project):
            report_progress(
                f"{commit.label} declares other dependencies: making an environment for it"
            )
            version = _install(checkout, project, made / "environment", extras)
        else:
            report_progress(f"{commit.label} runs its own checkout, in this environment")
            path = _moved_path(checkout, [*sys.path, *_editable_roots()])
            version = Version(checkout, sys.executable, path)
        _link_data(checkout)
        lines = git(checkout.folder, "worktree", "list", "--porcelain").splitlines()
        folders = [line.partition(" ")[2] for line in lines if line.startswith("worktree ")]
        others = (folder for folder in folders if Path(folder).resolve() != checkout.folder)
        yield replace(version, others=tuple(others))


def _link_data(checkout: Checkout) -> None:
    """Link git-ignored data into the other checkout, whose code looks for it there."""
    words = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    for name in filter(None, git(checkout.commit.repository, *words).split("\0")):
        there = checkout.folder / name
        if not any(map(_NO_DATA.fullmatch, there.relative_to(checkout.folder).parts)):
            with suppress(OSError):  # The other version has a file here or above.
                there.parent.mkdir(parents=True, exist_ok=True)
                there.symlink_to(checkout.commit.repository / name)


def _install(checkout: Checkout, project: Path, folder: Path, extras: str) -> Version:
    """Make a virtual environment and install another version into it in editable mode."""
    python, path = str(folder / "bin" / "python"), _moved_path(checkout, _given_path())
    there = checkout.locate(project)
    wanted = ["-r", str(there / "requirements.txt")]
    if any((there / name).is_file() for name in _PROJECT_FILES):
        wanted = ["-e", f"{there}[{extras}]" if extras else str(there)]
    _run([sys.executable, "-m", "venv", str(folder)], checkout.commit)
    _run([python, "-m", "pip", "install", "--quiet", *wanted], checkout.commit)
    try:
        _run([python, "-c", "import netpipe.pytest_plugin"], checkout.commit, path)
    except InputError:  # The project does not declare netpipe.
        _run([python, "-m", "pip", "install", "--quiet", _own_requirement()], checkout.commit)
        _run([python, "-c", "import netpipe.pytest_plugin"], checkout.commit, path)
    return Version(checkout, python, path)


def _own_requirement() -> str:
    """Return the requirement that installs this netpipe."""
    found = metadata.distribution("netpipe")
    direct = json.loads(found.read_text("direct_url.json") or "{}")
    if vcs := direct.get("vcs_info"):
        return f"netpipe @ {vcs['vcs']}+{direct['url']}@{vcs['commit_id']}"
    return direct.get("url") or f"netpipe=={found.version}"


def _run(command: list[str], commit: Commit, path: Iterable[str] = ()) -> None:
    """Run a command for the environment; if it fails, raise an InputError with its last lines."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        lines = "\n".join(done.stdout.splitlines()[-_MAX_LOG_LINES:])
        raise InputError(
            f"--netpipe-against {commit.ref}", "its environment",
            "contain its dependencies and netpipe",
            f"that `{' '.join(command)}` failed:\n{lines}",
            "Extras are named with --netpipe-against-extras",
        )  # fmt: skip


def _given_path() -> list[str]:
    """Return the entries of PYTHONPATH as Python writes them to `sys.path`."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [os.path.abspath(entry) for entry in entries if entry]  # noqa: PTH100


def _moved_path(checkout: Checkout, entries: list[str]) -> tuple[str, ...]:
    """Return a search path with every entry in this checkout moved into the other one.

    Other entries are kept if they come from PYTHONPATH; the interpreter adds the rest itself.
    """
    repository = checkout.commit.repository
    prefixes = map(Path, (sys.prefix, sys.base_prefix))
    environments = [prefix for prefix in prefixes if prefix.is_relative_to(repository)]
    moved: dict[str, None] = {}
    for entry in filter(None, entries):
        is_installed = any(map(Path(entry).is_relative_to, environments))
        if not is_installed and Path(entry).resolve().is_relative_to(repository):
            there = checkout.locate(Path(entry).resolve())
            if there.exists():
                moved[str(there)] = None
        elif entry in _given_path():
            moved[entry] = None
    return tuple(moved)


def _editable_roots() -> Iterator[str]:
    """Yield the folders that editable installations import through hooks instead of paths."""
    for distribution in metadata.distributions():
        url = json.loads(distribution.read_text("direct_url.json") or "{}")
        if not url.get("dir_info", {}).get("editable"):
            continue
        for name in (distribution.read_text("top_level.txt") or "").split():
            spec = find_spec(name)
            if spec is not None and spec.origin is not None:
                is_package = spec.submodule_search_locations is not None
                yield str(Path(spec.origin).parents[1 if is_package else 0])
