"""`netpipe judge`: its verdicts on real versions of a file, and its exit codes."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from netpipe.errors import MisuseError
from netpipe.gate.outcomes import Outcome
from netpipe.judge import judge
from netpipe.judge.reading import FIRST, Pass, Reading
from netpipe.resuming.checking import Restored, ResumeReport
from tests.command import Netpipe, document
from tests.judge.read_here import read_here
from tests.judge.test_checks import timed
from tests.repository import commit_files, git
from tests.work_profiles import PROFILE

TARGET = ("judge", "--loader", "pipeline.py:batches", "--quiet")
EXACT = ResumeReport(8, ended=True, undecided="", restored=[Restored(4, None, "", 9, 0.0, 0.1)])

PIPELINE = """
import numpy as np

class Batches:
    def __iter__(self):
        for number in range(6):
            yield {"x": np.arange(number, number + 4)}

def batches():
    return Batches()
"""


@pytest.fixture(autouse=True)
def others(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the results of the other checks, which are not made: they have their own tests."""
    found = {"resume": EXACT, "work": PROFILE, "timed": timed()}

    def give(name: str) -> Callable[..., Any]:
        def result(*_: object, **__: object) -> Any:
            result: Any = found[name]
            if isinstance(result, MisuseError):
                raise result
            return result

        return result

    monkeypatch.setattr(judge, "check_resume", give("resume"))
    monkeypatch.setattr(judge, "count_work", give("work"))
    monkeypatch.setattr(judge, "decide_in_duets", give("timed"))
    return found


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a committed pipeline, in which the command is run."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    commit_files(folder, {"pipeline.py": PIPELINE})
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def reading_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the batches of both versions in this process."""
    monkeypatch.setattr(judge, "read_batches", read_here)


@pytest.fixture
def same_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give both versions the same batches, which are not read."""
    batches = Pass([{"x": ("int64[1]", "digest")}], [["row"]], ended=True)
    monkeypatch.setattr(judge, "read_batches", lambda *_: Reading({FIRST: batches}, FIRST))


def change(folder: Path, old: str, new: str) -> None:
    """Change the pipeline of the working tree."""
    text = (folder / "pipeline.py").read_text()
    assert old in text
    (folder / "pipeline.py").write_text(text.replace(old, new))


def outcomes(found: Any) -> dict[str, str]:
    """Return the outcome of each question in a document."""
    return {check["question"]: check["outcome"] for check in found["checks"]}


def test_an_equal_version_is_accepted(netpipe: Netpipe, repository: Path) -> None:
    """A refactoring that gives the same batches passes every check."""
    change(repository, "np.arange(number, number + 4)", "number + np.arange(4)")
    result = netpipe(*TARGET, "--json")
    found = document(result, "judgement.1.json")
    assert (result.exit_code, found["verdict"], found["decisive"]) == (0, "ACCEPTED", [])
    assert outcomes(found) == {
        "data": "IDENTICAL", "shuffled": "NO_WORSE", "complete": "COMPLETE", "resumes": "EXACT",
        "faster": "PASS", "memory": "PASS", "start": "PASS",
    }  # fmt: skip
    assert found["base"].startswith("main (")


@pytest.mark.usefixtures("reading_here")
def test_other_data_are_refused_and_the_rest_stays_open(netpipe: Netpipe, repository: Path) -> None:
    """Neither resuming nor the speed is checked while the data differ."""
    change(repository, "range(6)", "range(5)")
    result = netpipe(*TARGET, "HEAD", "--json")
    found = document(result, "judgement.1.json")
    assert (result.exit_code, found["verdict"]) == (1, "REFUSED")
    assert found["decisive"] == ["data", "complete"]
    assert outcomes(found)["complete"] == "LOST"
    assert [*outcomes(found).values()][3:] == ["NOT_COMPARED"] * 4
    assert found["checks"][0]["difference"] == {
        "batch": 5, "leaf": "", "how": "end", "displacement": None,
    }  # fmt: skip


@pytest.mark.usefixtures("reading_here")
def test_a_declared_change_is_accepted_and_shown(netpipe: Netpipe, repository: Path) -> None:
    """The reason stands in the table; the other checks are made."""
    change(repository, "range(6)", "reversed(range(6))")
    lines = '"data SAME_ELEMENTS" = "the newest first"\n"shuffled NOT_COMPARED" = "not shuffled"\n'
    (repository / "pyproject.toml").write_text(f"[tool.netpipe.judge.accept]\n{lines}")
    result = netpipe(*TARGET)
    assert result.exit_code == 0
    assert "declared: the newest first" in " ".join(result.stdout.split())
    assert result.stdout.splitlines()[-1] == "ACCEPTED"


@pytest.mark.usefixtures("reading_here")
def test_a_base_that_fails_without_its_shuffle_loses_one_answer(
    netpipe: Netpipe, repository: Path
) -> None:
    """The other questions about the data are answered."""
    fails = (
        "def batches(shuffle=True):\n    if not shuffle:\n        raise SessionError('no order')"
    )
    change(repository, "def batches():", fails)
    change(repository, "import numpy", "from netpipe.errors import SessionError\nimport numpy")
    git(repository, "commit", "--all", "--message", "shuffle")
    change(repository, "range(6)", "reversed(range(6))")
    result = netpipe(*TARGET, "HEAD", "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["verdict"]) == (1, "REFUSED")
    assert outcomes(found)["shuffled"] == "NOT_COMPARED"
    assert outcomes(found)["complete"] == "COMPLETE"
    assert "cannot be read without its shuffle" in found["checks"][1]["reason"]


@pytest.mark.usefixtures("reading_here")
def test_a_base_that_is_not_reproducible_decides_nothing(
    netpipe: Netpipe, repository: Path
) -> None:
    """Batches in an order that depends on the process cannot be compared."""
    change(repository, "range(6)", "[int(os.environ['PYTHONHASHSEED'])]")
    change(repository, "import numpy", "import os\nimport numpy")
    git(repository, "commit", "--all", "--message", "hash")
    result = netpipe(*TARGET, "HEAD", "--json")
    assert result.exit_code == 3
    assert outcomes(json.loads(result.stdout))["data"] == "NOT_COMPARED"


@pytest.mark.usefixtures("reading_here")
def test_a_version_that_is_no_longer_reproducible_is_refused(
    netpipe: Netpipe, repository: Path
) -> None:
    """The base gives the same batches in each process, so the change is to blame."""
    change(repository, "range(6)", "[int(os.environ['PYTHONHASHSEED'])]")
    change(repository, "import numpy", "import os\nimport numpy")
    result = netpipe(*TARGET, "HEAD", "--json")
    assert result.exit_code == 1
    assert "other batches in each process" in json.loads(result.stdout)["checks"][0]["reason"]


@pytest.mark.usefixtures("repository", "same_data")
@pytest.mark.parametrize(
    ("changed", "flags", "code", "decisive"),
    [
        ({}, ["--no-timing"], 3, "UNDECIDED: memory, start"),
        ({"timed": timed(load_s_per_batch=Outcome.REGRESSED)}, [], 1, "REFUSED: faster"),
        ({"timed": timed(load_s_per_batch=Outcome.INCONCLUSIVE)}, [], 3, "UNDECIDED: faster"),
        ({}, ["--claim", "faster"], 1, "REFUSED: faster"),
        ({"timed": timed(load_s_per_batch=Outcome.IMPROVED)}, ["--claim", "faster"], 0, "ACCEPTED"),
        ({"work": MisuseError("not countable")}, [], 0, "ACCEPTED"),
        (
            {"work": MisuseError("not countable")},
            ["--no-timing"],
            3,
            "UNDECIDED: faster, memory, start",
        ),
        ({"resume": MisuseError("no state")}, [], 0, "ACCEPTED"),
    ],
)
def test_other_checks_decide_too(
    netpipe: Netpipe,
    others: dict[str, Any],
    changed: dict[str, Any],
    flags: list[str],
    code: int,
    decisive: str,
) -> None:
    """The last line names the questions that decide."""
    others.update(changed)
    result = netpipe(*TARGET, "HEAD", *flags)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (code, decisive)


@pytest.mark.usefixtures("repository", "same_data")
def test_contents_of_counted_batches_are_not_judged_twice(
    netpipe: Netpipe, others: dict[str, Any]
) -> None:
    """The data have their own check, which knows the elements."""
    others["work"] = replace(PROFILE, contents=(), not_counted={"contents": "unstable"})
    assert netpipe(*TARGET, "HEAD", "--no-timing").stdout.count("contents") == 0


@pytest.mark.usefixtures("same_data")
def test_without_a_change_there_is_nothing_to_judge(netpipe: Netpipe, repository: Path) -> None:
    """A clean main branch is refused as the default base of itself; a branch is compared."""
    result = netpipe(*TARGET)
    assert result.exit_code == 2
    assert "working tree must differ from main" in result.stderr
    git(repository, "switch", "--quiet", "--create", "branch")
    commit_files(repository, {"note.txt": "1"})
    assert netpipe(*TARGET).exit_code == 0


def test_wrong_usage_is_misuse(netpipe: Netpipe, repository: Path) -> None:
    """A ref, a loader or a number that does not exist is named."""
    for words, text in (
        (("nonsense",), "BASE: REF must name a commit"),
        (("HEAD", "--batches", "0"), "--batches"),
        (("HEAD", "--loader", "absent.py:batches"), "absent.py"),
    ):
        result = netpipe(*TARGET, *words)
        assert result.exit_code == 2
        assert text in result.stderr
    git(repository, "branch", "--move", "trunk")
    said = netpipe(*TARGET).stderr
    assert "BASE: ref must be given" in said
    assert "fetch-depth: 0" in said


@pytest.mark.usefixtures("repository", "same_data")
def test_a_failed_count_does_not_stand_in_for_times(
    netpipe: Netpipe, others: dict[str, Any]
) -> None:
    """The reason says that work was not counted, and why."""
    others["work"] = MisuseError("not countable")
    why = "work was not counted: the session of HEAD failed: not countable"
    assert why in netpipe(*TARGET, "HEAD", "--json").stdout
