"""`netpipe ab`: the pytest command that it starts, and its exit code."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from netpipe.cli import console
from tests.command import Netpipe
from tests.repository import commit_files, worktrees


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two commits, in which the command is run."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    commit_files(folder, {"perf_tests/test_a.py": "1"})
    commit_files(folder, {"perf_tests/test_a.py": "2"})
    monkeypatch.chdir(folder)
    return folder


class Started:
    """A stand-in for pytest that writes outcomes and ends with a code.

    The outcome with the number `reported` is only reported, not judged.
    """

    def __init__(
        self, code: int, *outcomes: str, writes: bool = True, reported: int | None = None
    ) -> None:
        self._reported = reported
        self._code = code
        self._writes = writes
        self.last_act: Callable[[], object] = lambda: None
        self._outcomes = outcomes
        self.command: list[str] = []
        self.folder = Path()
        self.seen = ""

    def __call__(self, command: list[str], cwd: Path, **_: object) -> "Started":
        """Record the command."""
        self.command, self.folder = command, cwd
        self.seen = (cwd / "perf_tests" / "test_a.py").read_text()
        written = next(word for word in command if word.startswith("--netpipe-json="))
        comparisons = [
            {"outcome": outcome, "against": "x", "is_reported_only": number == self._reported}
            for number, outcome in enumerate(self._outcomes)
        ]
        if self._writes:
            Path(written.partition("=")[2]).write_text(json.dumps({"comparisons": comparisons}))
        self.last_act()
        return self

    def __enter__(self) -> "Started":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait(self) -> int:
        """End."""
        return self._code


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> Started:
    """A pytest that passes."""
    started = Started(0, "PASS")
    monkeypatch.setattr(console, "subprocess", SimpleNamespace(Popen=started))
    return started


def test_the_working_tree_is_compared(netpipe: Netpipe, repository: Path, passing: Started) -> None:
    """Without HEAD, pytest runs the performance tests here against the given ref."""
    assert netpipe("ab", "HEAD~1", "--netpipe-budget", "5").exit_code == 0
    assert passing.folder == repository
    assert passing.command[1:6] == ["-m", "pytest", "perf_tests", "--netpipe-budget", "5"]
    assert "--netpipe-against=HEAD~1" in passing.command


def test_a_folder_is_no_head(netpipe: Netpipe, repository: Path, passing: Started) -> None:
    """A word that names a file goes to pytest and replaces the default."""
    netpipe("ab", "HEAD~1", "perf_tests/test_a.py::test_b")
    assert passing.folder == repository
    assert passing.command[3] == "perf_tests/test_a.py::test_b"
    assert "perf_tests" not in passing.command


def test_another_head_has_its_own_checkout(
    netpipe: Netpipe, repository: Path, passing: Started
) -> None:
    """Pytest runs in a worktree of HEAD against a commit, because refs may differ there."""
    base = commit_files(repository, {"perf_tests/test_a.py": "3"})
    assert netpipe("ab", "HEAD", "HEAD~2", "perf_tests").exit_code == 0
    assert passing.seen == "1"
    assert f"--netpipe-against={base}" in passing.command
    assert not passing.folder.exists()
    assert worktrees(repository) == 1


@pytest.mark.parametrize(
    ("started", "code"),
    [
        (Started(0, "PASS", "IMPROVED"), 0),
        (Started(0, "PASS", "NO_BASELINE"), 3),
        (Started(1, "REGRESSED", "NO_BASELINE"), 1),
        (Started(0, "PASS", "INCONCLUSIVE"), 3),
        (Started(0, "NO_BASELINE"), 3),
        (Started(1, "NO_BASELINE"), 3),
        (Started(1), 1),
        (Started(0, "NOT_COMPARED"), 3),
        (Started(0), 3),
        (Started(1, "REGRESSED"), 1),
        (Started(4), 2),
        (Started(5), 2),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "-".join(value._outcomes) or "none",
)
@pytest.mark.usefixtures("repository")
def test_exit_codes(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, started: Started, code: int
) -> None:
    """The exit code is 0 if fine, 1 for a regression, 2 for misuse, 3 if anything is undecided."""
    monkeypatch.setattr(console, "subprocess", SimpleNamespace(Popen=started))
    assert netpipe("ab", "HEAD~1").exit_code == code


@pytest.mark.usefixtures("repository")
def test_a_run_that_compares_nothing_says_so(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HEAD may have no tests with netpipe, whose summary would say it."""
    monkeypatch.setattr(console, "subprocess", SimpleNamespace(Popen=Started(0)))
    assert "no comparison of the two versions could be decided" in netpipe("ab", "HEAD~1").stderr


@pytest.mark.usefixtures("repository")
def test_what_is_reported_by_design_decides_nothing(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some times of a CPU device are only reported; a comparison that was not made is counted."""
    started = Started(0, "PASS", "NOT_COMPARED", reported=1)
    monkeypatch.setattr(console, "subprocess", SimpleNamespace(Popen=started))
    assert netpipe("ab", "HEAD~1").exit_code == 0
    started = Started(0, "PASS", "NOT_COMPARED", "NO_BASELINE", reported=1)
    monkeypatch.setattr(console, "subprocess", SimpleNamespace(Popen=started))
    result = netpipe("ab", "HEAD~1")
    assert result.exit_code == 3
    assert "only 1 of 2 comparisons of the two versions could be decided" in result.stderr


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("words", [("--netpipe-against=HEAD",), ("--netpipe-against", "HEAD")])
def test_another_ref_is_refused(netpipe: Netpipe, passing: Started, words: tuple[str, ...]) -> None:
    """BASE would replace it unnoticed; its extras may be given."""
    result = netpipe("ab", "HEAD~1", *words)
    assert result.exit_code == 2
    assert "--netpipe-against must be absent; found it. BASE is HEAD~1" in result.stderr
    assert not passing.command
    assert netpipe("ab", "HEAD~1", "--netpipe-against-extras", "dev").exit_code == 0


@pytest.mark.parametrize("folder", ["perf", "perf_tests", None])
def test_the_tests_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str | None
) -> None:
    """`perf` is the folder that `netpipe init` writes."""
    monkeypatch.chdir(tmp_path)
    if folder:
        (tmp_path / "perf").mkdir()
        (tmp_path / folder).mkdir(exist_ok=True)
    assert console.with_tests(("-x",)) == (folder or "perf_tests", "-x")


def test_an_expression_is_not_a_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The values of these flags are not taken for tests, even if they name a folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train").mkdir()
    for flag in ("-k", "-c", "--ignore", "--deselect", "--netpipe-baselines", "--log-file"):
        assert console.with_tests((flag, "train")) == ("perf_tests", flag, "train")
    for words in (("-x", "train"), ("--netpipe-report=x", "train"), ("--ignore", "x", "train")):
        assert console.with_tests(words) == words


@pytest.mark.usefixtures("repository", "passing")
def test_the_results_can_be_kept(netpipe: Netpipe, tmp_path: Path) -> None:
    """--netpipe-json writes the user's file, as in pytest."""
    netpipe("ab", "HEAD~1", "--netpipe-json", tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text())["comparisons"]


def test_results_that_cannot_be_kept_are_misuse(
    netpipe: Netpipe, repository: Path, passing: Started
) -> None:
    """An unwritable file is refused before anything is checked out."""
    result = netpipe("ab", "HEAD~1", "HEAD", "--netpipe-json", repository / "absent" / "run.json")
    assert result.exit_code == 2
    assert "run.json: --netpipe-json must be writable" in result.stderr
    assert not passing.command


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("outcome", ["REGRESSED", "INCONCLUSIVE"])
def test_the_file_of_an_earlier_run_decides_nothing(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, outcome: str
) -> None:
    """A pytest that writes no results, as with --co, leaves the user's file and its outcomes."""
    kept = tmp_path / "run.json"
    earlier = json.dumps({"comparisons": [{"outcome": outcome, "against": "x"}]})
    kept.write_text(earlier)
    monkeypatch.setattr(console, "subprocess", SimpleNamespace(Popen=Started(0, writes=False)))
    assert netpipe("ab", "HEAD~1", "--co", "--netpipe-json", kept).exit_code == 0
    assert kept.read_text() == earlier


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    ("started", "code"), [(Started(0, "PASS"), 2), (Started(1, "REGRESSED"), 1)]
)
def test_a_full_disk_does_not_hide_the_verdict(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, started: Started, code: int
) -> None:
    """Results that cannot be kept are an error, but a regression stays one."""
    monkeypatch.setattr(console, "subprocess", SimpleNamespace(Popen=started))
    kept = tmp_path / "kept" / "run.json"
    kept.parent.mkdir()
    started.last_act = kept.parent.rmdir
    result = netpipe("ab", "HEAD~1", "--netpipe-json", kept)
    assert result.exit_code == code
    assert "--netpipe-json must be writable" in result.stderr


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize("words", [("nowhere",), ("HEAD", "nowhere")])
def test_a_ref_that_is_not_there_is_misuse(
    netpipe: Netpipe, passing: Started, words: tuple[str, ...]
) -> None:
    """Exit code 2 and the ref; nothing is started."""
    result = netpipe("ab", *words)
    assert result.exit_code == 2
    assert "REF" in result.stderr
    assert "'nowhere'" in result.stderr
    assert not passing.command
