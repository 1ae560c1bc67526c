"""Targets as a user gives them: files beside them that are named like other modules."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from netpipe.errors import MisuseError
from netpipe.jobs.failure import format_failure
from netpipe.jobs.targets import Target, resolve

PIPELINE = """
import grain

from neighbour import double


def loader():
    numbers = grain.MapDataset.range(64).map(double).batch(4)
    in_process = numbers.to_iter_dataset(grain.ReadOptions(num_threads=0))
    return in_process.mp_prefetch(grain.MultiprocessingOptions(num_workers=1))


def filtered():
    numbers = grain.MapDataset.range(64).map(double).to_iter_dataset(grain.ReadOptions(0, 0))
    kept = numbers.filter(is_kept).batch(4)
    return kept.mp_prefetch(grain.MultiprocessingOptions(num_workers=2))


def is_kept(number):
    return number % 3
"""
WRONG = 'raise RuntimeError("the wrong module was imported")\n'


def run(*arguments: str | Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run netpipe as its console script does: the current folder is not on its path."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "netpipe", *map(str, arguments)],
        cwd=folder, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A pipeline with a function in a file beside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pipe.py").write_text(PIPELINE)
    (folder / "neighbour.py").write_text("def double(number):\n    return 2 * number\n")
    return folder


@pytest.fixture
def _imports_forgotten() -> Iterator[None]:
    """Forget the project's modules and the folders that a target adds in this process."""
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in ("pipe", "neighbour"):
        sys.modules.pop(name, None)


HIDING = ("timeit.py", "random.py", "grain.py", "cloudpickle.py")


def test_files_beside_the_target_hide_no_module(project: Path) -> None:
    """Files beside the target hide neither standard nor installed modules."""
    for name in HIDING:
        (project / name).write_text(WRONG)
    result = run("lint", f"{project / 'pipe.py'}:loader", "--quiet", folder=project.parent)
    assert (result.returncode, result.stderr) == (0, "")
    assert "ProcessPrefetch" in result.stdout or "mp_prefetch" in result.stdout


def test_a_target_in_the_current_folder_hides_no_module(project: Path) -> None:
    """A worker process imports the target's functions by its stem, and Python's modules too."""
    for name in HIDING:
        (project / name).write_text(WRONG)
    result = run("lint", "pipe.py:filtered", "--prove", "--quiet", folder=project)
    assert (result.returncode, result.stderr) == (0, "")
    assert "proof: proven: " in result.stdout


def test_a_module_in_the_current_folder_is_found(project: Path) -> None:
    """A dotted target is imported from where netpipe is started."""
    (project / "timeit.py").write_text(WRONG)
    result = run("lint", "pipe:loader", "--quiet", folder=project)
    assert (result.returncode, result.stderr) == (0, "")


SOURCES = {
    "absent module": ("import grain\nimport no_such_thing\n", 2, "No module named 'no_such_thing'"),
    "syntax": ("import grain\n\ndef loader(:\n", 3, "invalid syntax"),
    "absent name": ("from json import no_such_name\n", 1, "cannot import name 'no_such_name'"),
    "exit": ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
}


@pytest.mark.usefixtures("_imports_forgotten")
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("error", SOURCES)
def test_an_import_error_names_the_file_and_the_line(
    project: Path, error: str, beside: bool
) -> None:
    """The target, or a file beside it that it imports, has the error."""
    source, line, says = SOURCES[error]
    file = project / ("neighbour.py" if beside else "pipe.py")
    file.write_text(source)
    with pytest.raises((ImportError, SyntaxError, SystemExit)) as caught:
        resolve(Target.parse(f"{project / 'pipe.py'}:loader"))
    text = format_failure(caught.value)
    assert says in text
    assert f'File "{file}", line {line}' in text


@pytest.mark.parametrize(
    ("name", "error"), [("neighbour.py", "absent module"), ("pipe.py", "exit")]
)
def test_the_command_prints_an_import_error(project: Path, name: str, error: str) -> None:
    """The error that ends the session's import is on standard error, and the exit code is 2."""
    source, line, says = SOURCES[error]
    (project / "pipe.py").write_text("import neighbour\n")
    (project / name).write_text(source)
    result = run("lint", "pipe.py:loader", "--quiet", folder=project)
    assert result.returncode == 2
    assert says in result.stderr
    assert f'File "{project / name}", line {line}' in result.stderr


@pytest.mark.usefixtures("_imports_forgotten")
@pytest.mark.parametrize("use", ["from cattrs import double", "import cattrs\ncattrs.double"])
def test_a_file_beside_the_target_that_is_hidden_is_named(project: Path, use: str) -> None:
    """If the installed module lacks a name, the error says which module was imported."""
    (project / "neighbour.py").rename(project / "cattrs.py")
    (project / "pipe.py").write_text(f"{use}\n")
    with pytest.raises((ImportError, AttributeError)) as caught:
        resolve(Target.parse(f"{project / 'pipe.py'}:loader"))
    text = format_failure(caught.value)
    assert f" {project / 'cattrs.py'} " in text
    assert "cattrs/__init__.py: rename" in text


@pytest.mark.usefixtures("_imports_forgotten")
def test_a_target_named_like_an_installed_module_is_refused(project: Path) -> None:
    """A target that shadows an installed module is refused."""
    (project / "pipe.py").rename(project / "grain.py")
    with pytest.raises(MisuseError, match=r"grain\.py: its name .*; found grain "):
        resolve(Target.parse(f"{project / 'grain.py'}:loader"))
