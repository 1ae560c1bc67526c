"""The commit that baselines are read from, and their files."""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.gate.acceptance import find_accepted_commit, write_tree
from netpipe.worktrees import Commit
from tests.repository import commit, git, init

PULL_REQUEST = {"GITHUB_BASE_REF": "main"}
NO_PULL_REQUEST = {"GITHUB_BASE_REF": ""}
NOT_UTF_8 = os.fsdecode(b"h200-x1/\xff.json")


@dataclass(frozen=True)
class Branched:
    """A clone with a branch: its folder, the merge base, and the last commit of its origin."""

    clone: Path
    base: str
    main: str


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with baselines of two devices."""
    origin = init(tmp_path / "origin")
    names = ("README.md", "cpu/0001_first.json", "h200-x1/0001_first.json", "h200-x1/é b.json")
    for name in (*names, NOT_UTF_8):
        path = origin / "sub folder" / "baselines" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.fsencode(name) + b"\r\n\xff")
    (origin / "sub folder" / "baselines.json").write_text("none of them")
    (origin / "sub folder" / "baselines" / "cpu" / "link.json").symlink_to("0001_first.json")
    commit(origin)
    return origin


@pytest.fixture
def branched(origin: Path, tmp_path: Path) -> Branched:
    """A clone with one more commit, of an origin that also has one more."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", origin.as_uri(), str(clone))
    git(clone, "checkout", "--quiet", "-b", "feature")
    base = git(clone, "rev-parse", "HEAD")
    (clone / "sub folder" / "baselines" / "cpu" / "0001_first.json").write_text("mine")
    commit(clone)
    (origin / "other").write_text("theirs")
    main = commit(origin)
    git(clone, "fetch", "--quiet")
    return Branched(clone, base, main)


def found(at: str, root: Path, environment: dict[str, str]) -> str | None:
    """Return the hash of the commit found."""
    accepted = find_accepted_commit(at, root, environment)
    return None if accepted is None else accepted.sha


def test_the_accepted_commit(branched: Branched) -> None:
    """The accepted commit is the base of a pull or merge request, or the one named."""
    clone, merge_request = branched.clone, {"CI_MERGE_REQUEST_DIFF_BASE_SHA": branched.base}
    accepted = find_accepted_commit("auto", clone, PULL_REQUEST)
    described = "the merge base of HEAD and origin/main"
    assert accepted == Commit(clone.resolve(), described, branched.base)
    assert found("auto", clone, merge_request) == branched.base
    assert found("origin/main", clone, PULL_REQUEST) == branched.main
    # GitHub tests a merge of both branches, whose merge base is the target's last commit.
    git(clone, "merge", "--quiet", "--no-edit", "origin/main")
    assert found("auto", clone, PULL_REQUEST) == branched.main


@pytest.mark.parametrize(
    ("at", "environment"),
    [("auto", {}), ("auto", NO_PULL_REQUEST), ("here", PULL_REQUEST)],
    ids=["at home", "a push", "asked for"],
)
def test_the_working_tree_needs_no_repository(
    at: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """No commit is needed to use the working tree's baselines."""
    assert find_accepted_commit(at, tmp_path, environment) is None


@pytest.mark.parametrize(
    ("at", "environment"),
    [
        ("auto", PULL_REQUEST),
        ("auto", {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "BASE"}),
        ("BASE", {}),
    ],
    ids=["GitHub", "GitLab", "named"],
)
def test_a_shallow_clone_says_what_to_fetch(
    branched: Branched, tmp_path: Path, at: str, environment: dict[str, str]
) -> None:
    """A checkout of depth 1 has no merge base, and perhaps no target, so the error says so."""
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth", "1", branched.clone.as_uri(), str(shallow))
    environment = {
        name: value.replace("BASE", branched.base) for name, value in environment.items()
    }
    with pytest.raises(InputError, match="fetch-depth: 0"):
        find_accepted_commit(at.replace("BASE", branched.base), shallow, environment)


def test_the_commit_s_files_are_written(branched: Branched, tmp_path: Path) -> None:
    """Only plain files of the folder are copied from the commit, byte for byte."""
    root, into = branched.clone / "sub folder", tmp_path / "into"
    git(branched.clone, "rm", "-r", "--quiet", "sub folder/baselines/h200-x1")
    write_tree(Commit(branched.clone, "", branched.base), root / "baselines", into)
    files = sorted(path.relative_to(into).as_posix() for path in into.rglob("*.*"))
    assert files == [
        "README.md", "cpu/0001_first.json", "h200-x1/0001_first.json", "h200-x1/é b.json", NOT_UTF_8
    ]  # fmt: skip
    assert (into / "cpu" / "0001_first.json").read_bytes() == b"cpu/0001_first.json\r\n\xff"


def test_attributes_of_the_change_hide_nothing(origin: Path, tmp_path: Path) -> None:
    """Files that the repository excludes from its archives are read too."""
    (origin / ".gitattributes").write_text("*.json export-ignore\n")
    made = commit(origin)
    baselines = origin / "sub folder" / "baselines"
    write_tree(Commit(origin, "", made), baselines, tmp_path / "into")
    assert (tmp_path / "into" / "cpu" / "0001_first.json").is_file()


def test_a_folder_outside_of_the_repository_is_an_error(branched: Branched, tmp_path: Path) -> None:
    """No commit can hold a folder outside the repository, so it is refused."""
    with pytest.raises(InputError) as raised:
        write_tree(Commit(branched.clone, "", branched.base), tmp_path, tmp_path / "into")
    assert (raised.value.field, raised.value.found) == ("baselines", tmp_path)
