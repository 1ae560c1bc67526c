"""The judge's checks as expectations of tests."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from netpipe.errors import InconclusiveError, InputError, MisuseError, PipelineElementsError
from netpipe.judge import judge
from netpipe.testing import expect_same_data, expect_well_shuffled
from perf_tests.studies.shuffles import PLANTED, make_uniform
from tests.judge.read_here import read_here
from tests.repository import commit_files, git

SIZE, BATCH = 1000, 16

PIPELINE = """
import numpy as np

def batches():
    return [{"x": np.arange(number, number + 4)} for number in range(6)]
"""
TARGET = "pipeline.py:batches"


def draw(name: str, seed: int) -> Iterator[list[dict[str, np.ndarray]]]:
    """Yield the batches of the epochs of a shuffle, whose elements are positions."""
    make = PLANTED.get(name, make_uniform)
    for epoch in make(np.random.default_rng(seed), SIZE, BATCH):
        yield [{"id": np.asarray(batch)} for batch in epoch]


def key(batch: dict[str, np.ndarray]) -> np.ndarray:
    """Return the positions of a batch."""
    return batch["id"]


def test_uniform_shuffles_pass() -> None:
    """None of 40 uniform shuffles fails, as one epoch or two."""
    for seed in range(40):
        both = [*draw("uniform", seed)]
        expect_well_shuffled(both, SIZE, key)
        expect_well_shuffled(both[:1], SIZE, key)


@pytest.mark.parametrize("name", PLANTED)
def test_planted_shuffles_fail(name: str) -> None:
    """The message has the figures that show it."""
    with pytest.raises(PipelineElementsError, match=r"uniformly.* is (0\.\d|1\.0)"):
        expect_well_shuffled(draw(name, 0), SIZE, key)


def test_positions_may_be_any_numbers() -> None:
    """A key may return a list, and the first batches suffice."""
    batches = [[{"id": np.arange(number, number + 20)} for number in range(0, 200, 20)]]
    with pytest.raises(PipelineElementsError, match="source_part"):
        expect_well_shuffled(batches, SIZE, lambda batch: batch["id"].tolist())


def test_a_batch_of_one_element_has_one_number() -> None:
    """A key need not make a list of it."""
    with pytest.raises(PipelineElementsError, match="source_part"):
        expect_well_shuffled([[{"id": number} for number in range(200)]], SIZE, lambda b: b["id"])


def test_few_or_wrong_positions_decide_nothing() -> None:
    """An epoch needs 100 elements, all of them in the source."""
    batches = [[{"id": np.arange(99)}]]
    with pytest.raises(InconclusiveError, match="at least 100 elements; found 99"):
        expect_well_shuffled(batches, SIZE, key)
    with pytest.raises(MisuseError, match="must be from 0 to 9; found 0 to 98"):
        expect_well_shuffled(batches, 10, key)
    for wrong in (lambda batch: batch["id"] + 0.6, lambda batch: batch["id"][:, None]):
        with pytest.raises(MisuseError, match="key must return a whole number"):
            expect_well_shuffled(batches, SIZE, wrong)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a committed pipeline, in which the test runs."""
    commit_files(tmp_path, {"pipeline.py": PIPELINE})
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read both versions in this process; `netpipe judge` is tested with processes of its own."""
    monkeypatch.setattr(judge, "read_batches", read_here)


def change(folder: Path, old: str, new: str) -> None:
    """Change the pipeline of the working tree."""
    (folder / "pipeline.py").write_text(PIPELINE.replace(old, new))


def test_a_refactoring_has_the_same_data(repository: Path) -> None:
    """The data are compared, not the code."""
    change(repository, "np.arange(number, number + 4)", "number + np.arange(4)")
    expect_same_data("HEAD", TARGET)


@pytest.mark.usefixtures("in_this_process")
def test_other_data_fail(repository: Path) -> None:
    """The message names what differs, in all questions about the data."""
    change(repository, "range(6)", "range(5)")
    kinds = PipelineElementsError, InconclusiveError  # the latter would skip this test
    with pytest.raises(kinds, match=r"not those of HEAD\n(?s:.*)complete LOST: ") as raised:
        expect_same_data("HEAD", TARGET)
    assert raised.type is PipelineElementsError


@pytest.mark.usefixtures("in_this_process")
def test_a_declared_change_passes(repository: Path) -> None:
    """The reasons in pyproject.toml count as for the command."""
    change(repository, "range(6)", "reversed(range(6))")
    lines = '"data SAME_ELEMENTS" = "newest first"\n"shuffled NOT_COMPARED" = "not shuffled"\n'
    (repository / "pyproject.toml").write_text(f"[tool.netpipe.judge.accept]\n{lines}")
    expect_same_data("HEAD", TARGET)


@pytest.mark.usefixtures("in_this_process")
def test_loaders_without_batches_are_inconclusive(repository: Path) -> None:
    """The reason is not that the batches differ in each process."""
    (repository / "pipeline.py").write_text("def batches():\n    return []\n")
    git(repository, "commit", "--quiet", "--all", "--message", "empty")
    with pytest.raises(InconclusiveError, match="neither version gives a batch"):
        expect_same_data("HEAD", TARGET)


@pytest.mark.usefixtures("in_this_process")
def test_an_open_check_is_inconclusive(repository: Path) -> None:
    """An epoch that does not end within the batches may have lost elements."""
    with pytest.raises(InconclusiveError, match="complete NOT_COMPARED: neither version ended"):
        expect_same_data("HEAD", TARGET, batches=5)
    git(repository, "tag", "v1")
    with pytest.raises(InputError, match="base"):
        expect_same_data("v2", TARGET)
