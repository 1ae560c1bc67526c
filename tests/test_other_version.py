"""Another version beside this one: its code, environment and removal."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import metadata
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import SimpleNamespace

import pytest

from netpipe import other_version
from netpipe.errors import InputError
from netpipe.files.temporary_folders import locked, remove_abandoned
from netpipe.jobs.targets import name_targets
from netpipe.other_version import Version, open_version
from netpipe.work_counts.reproducible_counts import WorkRequest
from netpipe.worktrees import Commit, find_commit
from tests.repository import commit_files, git, worktrees

ALIKE = '[project]\nname = "p"\nversion = "1"\ndependencies = ["numpy"]\n'


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two versions of the packages `flat` and `src/inner`, which contain their number."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for number in "12":
        text = f"VERSION = {number}\n"
        files = {"flat/__init__.py": text, "src/inner/__init__.py": text}
        declared = {"pyproject.toml": ALIKE, "setup.cfg": "[options]\ninstall_requires = a\n"}
        commit_files(folder, files | declared | {".gitignore": "ignored.lock"})
    return folder


@pytest.fixture
def said() -> list[str]:
    """The messages for the user."""
    return []


@pytest.fixture
def before(repository: Path, said: list[str]) -> AbstractContextManager[Version]:
    """The previous version."""
    found = find_commit(repository, "HEAD~1", "--netpipe-against")
    return open_version(found, repository, "", said.append)


def versions_loaded(version: Version) -> list[str]:
    """Import both packages as a session would, without its folder on the path."""
    place = version.place(version.checkout.commit.repository)
    code = "import flat, inner; print(flat.VERSION, inner.VERSION)"
    done = subprocess.run(
        [version.python, "-P", "-c", code], cwd=place.folder, check=True,
        env={**os.environ, **place.variables}, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.split()


def test_what_is_imported_here_is_imported_there(
    repository: Path, before: AbstractContextManager[Version], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flat package and one in src, both found here through sys.path, are those of the ref."""
    monkeypatch.setattr(sys, "path", [str(repository), str(repository / "src"), *sys.path])
    with before as version:
        assert versions_loaded(version) == ["1", "1"]


def test_an_editable_installation_with_a_hook_is_followed(
    repository: Path, before: AbstractContextManager[Version], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that a finder hook imports from this checkout is moved too."""
    hook = FinderHook({"inner": repository / "src" / "inner" / "__init__.py"})
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, hook])
    installed = FakeDistribution()
    monkeypatch.setattr(metadata, "distributions", lambda: [installed])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with before as version:
        assert version.path == (str(version.checkout.folder / "src"),)


@pytest.mark.parametrize("given", ["{}/", "{}//libraries/..", "libraries/.."])
def test_entries_of_pythonpath_are_kept_however_they_are_written(
    before: AbstractContextManager[Version],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    given: str,
) -> None:
    """Python normalises them in `sys.path`."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("PYTHONPATH", given.format(elsewhere))
    monkeypatch.setattr(sys, "path", [str(elsewhere)])
    with before as version:
        assert version.path == (str(elsewhere),)


class FakeDistribution:
    """An editable installation, as its metadata describe it."""

    def read_text(self, name: str) -> str | None:
        """Return a file of the metadata."""
        files = {"direct_url.json": '{"dir_info": {"editable": true}}', "top_level.txt": "inner\n"}
        return files.get(name)


class FinderHook:
    """The finder of an editable installation by setuptools."""

    def __init__(self, mapping: dict[str, Path]) -> None:
        self._mapping = mapping

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Find a package that is mapped."""
        if name not in self._mapping:
            return None
        file = self._mapping[name]
        return spec_from_file_location(name, file, submodule_search_locations=[str(file.parent)])


def test_an_environment_inside_the_checkout_is_not_moved(
    repository: Path, before: AbstractContextManager[Version], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both versions use the packages of a .venv in the project's folder."""
    packages = repository / ".venv" / "lib" / "site-packages"
    monkeypatch.setattr(sys, "prefix", str(repository / ".venv"))
    monkeypatch.setattr(sys, "path", [str(repository), str(packages)])
    with before as version:
        assert version.path == (str(version.checkout.folder),)


def test_paths_are_moved_and_data_are_not(
    repository: Path, before: AbstractContextManager[Version]
) -> None:
    """Tests and tracked files are those of the ref, other data those of this version."""
    (repository / "data").mkdir()
    with before as version:
        there = version.checkout.folder
        assert version.move_paths(
            [f"{repository}/tests/test_a.py::test_b[x::y]", f"--rootdir={repository}",
             f"--netpipe-data={repository}/data", "--netpipe-data=data", "data", "flat",
             "--netpipe-budget", "5", "-n0", "", "/usr/nowhere"],
            repository,
        ) == [
            f"{there}/tests/test_a.py::test_b[x::y]", f"--rootdir={there}",
            f"--netpipe-data={repository}/data", f"--netpipe-data={repository}/data",
            f"{repository}/data", "flat", "--netpipe-budget", "5", "-n0", "", "/usr/nowhere",
        ]  # fmt: skip


def test_a_target_outside_the_repository_is_refused(
    repository: Path, before: AbstractContextManager[Version], tmp_path: Path
) -> None:
    """Both versions would run the same file, and be equal."""
    (outside := tmp_path / "loader.py").touch()
    with before as version:
        for where in ("flat", "flat/missing.py", f"{repository}/flat/__init__.py"):
            version.request_there(WorkRequest(targets=name_targets(loader=f"{where}:make")))
        with pytest.raises(
            InputError, match=rf"loader: file must be in {repository}; found {outside}"
        ):
            version.request_there(WorkRequest(targets=name_targets(loader=f"{outside}:make")))


def test_data_that_git_ignores_are_there(repository: Path, said: list[str]) -> None:
    """Data are linked; code, hidden files and files of the ref are not."""
    ignored = ["kept/", "flat/words.txt", "made.py", ".venv/", "build/", "own.txt"]
    commit_files(repository, {"own.txt": "there"})
    git(repository, "rm", "--quiet", "own.txt")
    commit_files(repository, {".gitignore": "\n".join(ignored)})
    for name in ("kept/x.bin", *ignored[1:3], ".venv/x", "build/x", "own.txt"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_text("here")
    with open_version(
        find_commit(repository, "HEAD~1", "--netpipe-against"), repository, "", said.append
    ) as version:
        there = version.checkout.folder
        links = {str(path.relative_to(there)) for path in there.rglob("*") if path.is_symlink()}
        assert links == {"kept", "flat/words.txt"}
        assert (there / "kept/x.bin").read_text() == "here"
    assert (repository / "kept/x.bin").exists()


def test_paths_through_links_are_moved(
    repository: Path, before: AbstractContextManager[Version], tmp_path: Path
) -> None:
    """The ref's test is run, whether a link leads to the checkout or into it."""
    (tmp_path / "link").symlink_to(repository)
    (tmp_path / "tests").symlink_to(repository / "flat")
    (repository / "data").symlink_to(tmp_path)
    with before as version:
        there = version.checkout.folder
        assert version.move_paths(
            [f"{tmp_path}/link/flat/__init__.py::test_b", f"--rootdir={tmp_path}/link",
             f"{tmp_path}/tests/__init__.py::test_b", f"{tmp_path}/link/data"],
            repository,
        ) == [
            f"{there}/flat/__init__.py::test_b", f"--rootdir={there}",
            f"{there}/flat/__init__.py::test_b", f"{tmp_path}/link/data",
        ]  # fmt: skip


def test_nothing_is_left(repository: Path, before: AbstractContextManager[Version]) -> None:
    """The worktree is gone at the end and after an interruption, and from git's list."""
    with pytest.raises(KeyboardInterrupt), before as version:  # noqa: PT012
        folder = version.checkout.folder
        assert worktrees(repository) == 2
        raise KeyboardInterrupt
    assert not folder.exists()
    assert not folder.parent.exists()
    assert worktrees(repository) == 1
    assert git(repository, "worktree", "prune", "--dry-run", "--verbose") == ""


_KILLED = """
import os, sys
from pathlib import Path
from netpipe.other_version import open_version
from netpipe.worktrees import find_commit

here = Path(sys.argv[1])
with open_version(find_commit(here, "HEAD~1", "--netpipe-against"), here, "", str):
    print("ready", flush=True)
    sys.stdin.read()
"""


@contextmanager
def opened_elsewhere(repository: Path) -> Iterator["subprocess.Popen[str]"]:
    """Make another process open the previous version until its standard input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(repository)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process


@pytest.mark.parametrize("is_swept", [False, True])
def test_the_worktree_of_a_killed_process_is_removed(
    repository: Path, before: AbstractContextManager[Version], is_swept: bool, tmp_path: Path
) -> None:
    """The next run removes it, and keeps worktrees of live processes and of the user."""
    git(repository, "worktree", "add", str(tmp_path / "mine"))
    git(repository, "worktree", "add", str(tmp_path / "gone"))
    shutil.rmtree(tmp_path / "gone")
    with opened_elsewhere(repository) as killed, opened_elsewhere(repository):
        killed.kill()
        killed.wait()
        if is_swept:
            remove_abandoned(Path(tempfile.gettempdir()))
        assert worktrees(repository) == 5
        with before:
            assert worktrees(repository) == 5
        assert worktrees(repository) == 4
    assert worktrees(repository) == 3


def test_the_worktree_of_another_container_stays(
    repository: Path, before: AbstractContextManager[Version]
) -> None:
    """The worktree's temporary folder is not visible here, but git's folder for it is locked."""
    name = "netpipe-against-abcdefgh.tmp/checkout"
    git(repository, "worktree", "add", "--detach", str(repository.parent / name))
    shutil.rmtree(repository.parent / name)
    with locked(repository / ".git" / "worktrees" / "checkout"), before:
        assert worktrees(repository) == 3
    with opened_elsewhere(repository):
        assert worktrees(repository) == 2


def test_an_incomplete_worktree_takes_no_other_with_it(
    repository: Path, before: AbstractContextManager[Version], tmp_path: Path
) -> None:
    """A worktree of the user on a disk that is not mounted now stays known."""
    git(repository, "worktree", "add", str(tmp_path / "unmounted"))
    shutil.rmtree(tmp_path / "unmounted")
    with before as version:
        (version.checkout.folder / ".git").unlink()
    assert worktrees(repository) == 2


def test_hooks_stay_out_of_it(
    repository: Path, before: AbstractContextManager[Version], tmp_path: Path
) -> None:
    """A repository's post-checkout hook is not run."""
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    with before:
        assert not (tmp_path / "ran").exists()


def test_a_ref_that_is_not_there_is_refused(repository: Path) -> None:
    """The message has the repository and the ref; one that looks like a flag is only a name."""
    for ref in ("nowhere", "--help"):
        with pytest.raises(InputError) as refused:
            find_commit(repository, ref, "--netpipe-against")
        error = refused.value
        assert (error.where, error.field, error.found) == ("--netpipe-against", "REF", repr(ref))
        assert str(repository) in error.constraint


def test_a_folder_outside_git_is_refused(tmp_path: Path) -> None:
    """The message has the folder, and what git says."""
    with pytest.raises(InputError, match=f"found {tmp_path}. fatal: not a git"):
        find_commit(tmp_path, "HEAD", "--netpipe-against")


def test_other_dependencies_need_another_environment(
    repository: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ref is installed with its extras into an environment of its own."""
    commands: list[list[str]] = []
    monkeypatch.setattr(other_version, "_run", lambda command, *_: commands.append(command))
    commit_files(repository, {"pyproject.toml": ALIKE.replace("numpy", "numpy>2")})
    found = find_commit(repository, "HEAD~1", "--netpipe-against")
    with open_version(found, repository, "cuda12,dev", said.append) as version:
        there = version.checkout.folder
        python = str(there.parent / "environment" / "bin" / "python")
        assert version.python == python
        assert commands[0] == [sys.executable, "-m", "venv", str(there.parent / "environment")]
        assert commands[1][1:] == ["-m", "pip", "install", "--quiet", "-e", f"{there}[cuda12,dev]"]
    assert len(said) == 1
    assert "HEAD~1 declares other dependencies" in said[0]


@pytest.mark.parametrize(
    ("direct", "wanted"),
    [
        ({"url": "file:///netpipe.whl", "archive_info": {}}, "file:///netpipe.whl"),
        ({"url": "https://at/n", "vcs_info": {"vcs": "git", "commit_id": "12ab"}},
         "netpipe @ git+https://at/n@12ab"),
        ({}, "netpipe==3"),
    ],
)  # fmt: skip
def test_a_project_need_not_declare_netpipe(
    repository: Path,
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    direct: dict[str, object],
    wanted: str,
) -> None:
    """The other environment gets this netpipe too, from the same source as here."""
    commands: list[list[str]] = []

    def run(command: list[str], *_: object) -> None:
        commands.append(command)
        if commands.count(command) == 1 and command[1] == "-c":
            raise InputError("", "", "", "")

    monkeypatch.setattr(other_version, "_run", run)
    monkeypatch.setattr(metadata, "distributions", list)
    installed = SimpleNamespace(version="3", read_text=lambda _: json.dumps(direct))
    monkeypatch.setattr(metadata, "distribution", lambda _: installed)
    commit_files(repository, {"pyproject.toml": ALIKE.replace("numpy", "numpy>2")})
    with open_version(find_commit(repository, "HEAD~1", "ab"), repository, "", said.append):
        assert commands[-2][1:] == ["-m", "pip", "install", "--quiet", wanted]
        assert commands[-1] == commands[2]


@pytest.mark.parametrize(
    ("name", "text", "needs"),
    [
        ("pyproject.toml", ALIKE.replace('version = "1"', 'version = "2"'), False),
        ("pyproject.toml", ALIKE.replace("numpy", "scipy"), True),
        ("pyproject.toml", ALIKE + '[project.entry-points.pytest11]\np = "flat"\n', True),
        ("pyproject.toml", ALIKE + '[dependency-groups]\ndev = ["scipy"]\n', True),
        ("pyproject.toml", ALIKE + "[tool.ruff]\nline-length = 3\n", False),
        ("pyproject.toml", ALIKE + "[tool.uv]\nmanaged = false\n", True),
        ("pyproject.toml", "no [ toml", True),
        ("setup.cfg", "[flake8]\nmax = 3\n", True),
        ("requirements-dev.txt", "scipy", True),
        ("uv.lock", "", True),
        ("setup.py", "", True),
        ("flat/__init__.py", "VERSION = 3", False),
        ("ignored.lock", "", False),
    ],
)
def test_dependencies_decide(
    repository: Path, said: list[str], monkeypatch: pytest.MonkeyPatch,
    name: str, text: str, needs: bool,
) -> None:  # fmt: skip
    """Only other dependencies need an environment; another version or tool setting does not."""
    monkeypatch.setattr(other_version, "_run", lambda *_: None)
    commit_files(repository, {name: text})
    found = find_commit(repository, "HEAD~1", "--netpipe-against")
    with open_version(found, repository, "", said.append) as version:
        assert (version.python != sys.executable) is needs


@pytest.mark.parametrize(
    ("ref", "typed", "label"),
    [("HEAD~1", "", "HEAD~1"), ("f" * 40, "", "f" * 12), ("f" * 40, "main", "main (fffffff)")],
)
def test_a_full_hash_is_shortened_in_messages(ref: str, typed: str, label: str) -> None:
    """Other refs are shown as the user typed them."""
    assert Commit(Path(), ref, "f" * 40, typed).label == label
