"""The commands that are disturbed, and the small project in which they run."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from netpipe.errors import NetpipeError
from netpipe.workload.preparation.profiles import PROFILES
from netpipe.workload.preparation.synthetic import generate
from netpipe.workload.sources.probe_rows import open_source

_CONFTEST: Final = """\
import grain
import numpy as np
import pytest


def in_process():
    rows = grain.MapDataset.range(4096).map(lambda row: np.full(1024, row, np.float32))
    return rows.repeat().batch(32).to_iter_dataset()


def in_workers():
    return in_process().mp_prefetch(grain.MultiprocessingOptions(num_workers=2))


@pytest.fixture
def netpipe_loader():
    return in_process
"""
_TEST: Final = """\
def test_load(netpipe_benchmark):
    netpipe_benchmark("load_s_per_batch")
"""
_BUDGET: Final = "2"
_PROBES: Final = 1500


@dataclass(frozen=True)
class Command:
    """A command line of netpipe, run in the project folder.

    Attributes:
        find_damage: Yields the damage to the outputs in a project folder, which may be
            absent.
        outputs: The files and folders in the project that it may write.
    """

    name: str
    words: tuple[str, ...]
    find_damage: Callable[[Path], Iterator[str]]
    outputs: tuple[str, ...]

    @property
    def arguments(self) -> list[str]:
        """The command line to start."""
        return [sys.executable, "-m", *self.words]


def make_project(folder: Path) -> None:
    """Write the project in a new folder: a loader, a test, two commits, and parquet files."""
    folder.mkdir()
    (folder / "conftest.py").write_text(_CONFTEST, encoding="utf-8")
    (folder / "test_load.py").write_text(_TEST, encoding="utf-8")
    (folder / ".gitignore").write_text("parquet\n", encoding="utf-8")
    author = ("-c", "user.name=study", "-c", "user.email=study@example.org")
    for words in (
        ("init", "--quiet"),
        ("add", "--all"),
        (*author, "commit", "--quiet", "--message=First version"),
        (*author, "commit", "--quiet", "--allow-empty", "--message=Second version"),
    ):
        subprocess.run(["git", *words], cwd=folder, check=True)
    generate(folder / "out", probes=_PROBES, profile=PROFILES["embedded"])
    (folder / "out" / "parquet").rename(folder / "parquet")


def _check_prepared(project: Path) -> Iterator[str]:
    """Check that the prepared folder is whole, either the old or the new one."""
    for split in ("train", "eval"):
        try:
            source = open_source(project / "out", split)
            source.read([len(source.row_measurements) - 1])
        except NetpipeError as error:
            yield f"no prepared folder: {error}"


def _check_json(pattern: str) -> Callable[[Path], Iterator[str]]:
    def find_damage(project: Path) -> Iterator[str]:
        for file in project.glob(pattern):
            try:
                json.loads(file.read_text("utf-8"))
            except ValueError as error:
                yield f"{file.name} is torn: {error}"

    return find_damage


def _check_page(project: Path) -> Iterator[str]:
    page = project / "page.html"
    if page.exists() and not page.read_text("utf-8").rstrip().endswith("</html>"):
        yield "page.html is torn"


_PYTEST: Final = (
    "test_load.py",
    "--netpipe-accelerator=emulated:5ms",
    f"--netpipe-budget={_BUDGET}",
)

COMMANDS: Final[Mapping[str, Command]] = {
    command.name: command
    for command in (
        Command(
            "prepare",
            ("netpipe", "prepare", "parquet", "--out", "out"),
            _check_prepared,
            ("out",),
        ),
        Command(
            "record",
            ("pytest", *_PYTEST, "--netpipe-record=trial", "--netpipe-sessions=1"),
            _check_json("baselines/*/*.json"),
            ("baselines",),
        ),
        Command(
            "ab",
            ("netpipe", "ab", "HEAD~1", *_PYTEST, "--netpipe-json=run.json"),
            _check_json("run.json"),
            ("run.json",),
        ),
        Command(
            "measure",
            ("netpipe", "measure", "--loader=conftest.py:in_workers", f"--budget={_BUDGET}",
             "--accelerator=emulated:5ms", "--html=page.html"),
            _check_page,
            ("page.html",),
        ),
    )
}  # fmt: skip
"""The commands by name."""
