"""The commands, packages and schemas of the repository are complete."""

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import jsonschema
import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "netpipe"
SCHEMAS = sorted((PACKAGE / "schemas").iterdir())


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    """The project's metadata and settings."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def lines(file: str, pattern: str) -> list[str]:
    """Find the lines of a file that match a pattern; return the pattern's group."""
    return re.findall(f"^{pattern}$", (ROOT / file).read_text(), re.MULTILINE)


def test_ci_runs_the_commands_of_the_readme() -> None:
    """The two commands that the README promises are those that continuous integration runs."""
    promised = {"pip install tox && tox -e cpu", "pip install tox && tox"}
    assert set(lines("README.md", "(pip install tox && .*)")) == promised
    # The script's own flags, usually none, follow the command.
    assert (
        set(lines(".ci/run", r"""run ['"](pip install tox && .*?)(?:\$flags)?['"]""")) == promised
    )


@pytest.mark.parametrize("script", [".ci/run", ".ci/foreign"])
def test_the_scripts_are_executable_bash(script: str) -> None:
    """The scripts of a fresh clone are executable and valid bash."""
    assert (ROOT / script).stat().st_mode & 0o111
    subprocess.run(["bash", "-n", ROOT / script], check=True)


def test_a_wheel_has_the_whole_package_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Building writes only the wheel, which has every file of the package and no tests."""
    source, out = tmp_path / "source", tmp_path / "out"
    shutil.copytree(PACKAGE, source / "netpipe", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, source)
    before = list_files(source)
    build = f"import hatchling.build; print(hatchling.build.build_wheel({str(out)!r}))"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True)
    assert list_files(source) == before
    (wheel,) = out.iterdir()
    with ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
        (entry_points,) = (n for n in archive.namelist() if n.endswith("/entry_points.txt"))
        assert "netpipe.pytest_plugin" in archive.read(entry_points).decode()
    assert shipped == {name for name in before if name.startswith("netpipe/")}
    assert "netpipe/cli/templates/conftest.py.jinja" in shipped


def list_files(folder: Path) -> set[str]:
    """Return the files below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda path: path.name)
def test_every_schema_is_valid(schema: Path) -> None:
    """A schema is a JSON Schema, and describes the document it is named after."""
    text = schema.read_text()
    jsonschema.Draft202012Validator.check_schema(json.loads(text))
    name, version, _ = schema.name.split(".")
    assert f'"const": "netpipe.{name}/{version}"' in text


def test_there_are_schemas() -> None:
    """There is at least one schema."""
    assert SCHEMAS


def test_the_version_is_in_one_place(pyproject: dict[str, Any]) -> None:
    """The package holds the version; the metadata take it from there."""
    assert "version" not in pyproject["project"]
    assert pyproject["project"]["dynamic"] == ["version"]
    assert pyproject["tool"]["hatch"]["version"] == {"path": "netpipe/__init__.py"}
    written = lines("netpipe/__init__.py", '__version__ = "(.+)"')
    assert written == [importlib.metadata.version("netpipe")]
