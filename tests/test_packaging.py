"""The commands, packages and schemas of the repository are complete."""

import importlib.metadata
import json
import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

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


def test_every_package_is_listed(pyproject: dict[str, Any]) -> None:
    """The hand-written list of packages has every package and no tests."""
    found = {".".join(init.parent.relative_to(ROOT).parts) for init in PACKAGE.rglob("__init__.py")}
    assert set(pyproject["tool"]["setuptools"]["packages"]) == found


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda path: path.name)
def test_every_schema_is_shipped_and_valid(schema: Path, pyproject: dict[str, Any]) -> None:
    """A schema is package data, is a JSON Schema, and describes the document it is named after."""
    patterns = pyproject["tool"]["setuptools"]["package-data"]["netpipe"]
    assert any(fnmatch(str(schema.relative_to(PACKAGE)), pattern) for pattern in patterns)
    text = schema.read_text()
    jsonschema.Draft202012Validator.check_schema(json.loads(text))
    name, version, _ = schema.name.split(".")
    assert f'"const": "netpipe.{name}/{version}"' in text


def test_every_data_file_is_shipped(pyproject: dict[str, Any]) -> None:
    """A file of the package that is not Python, such as a template, is package data."""
    patterns = pyproject["tool"]["setuptools"]["package-data"]["netpipe"]
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix[:3] != ".py"]
    names = [str(path.relative_to(PACKAGE)) for path in files]
    assert "cli/templates/conftest.py.jinja" in names
    assert [n for n in names if not any(fnmatch(n, pattern) for pattern in patterns)] == []


def test_there_are_schemas() -> None:
    """There is at least one schema."""
    assert SCHEMAS


def test_the_version_is_in_one_place(pyproject: dict[str, Any]) -> None:
    """The package holds the version; the metadata take it from there."""
    assert "version" not in pyproject["project"]
    assert pyproject["project"]["dynamic"] == ["version"]
    assert pyproject["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "netpipe.__version__"}
    written = lines("netpipe/__init__.py", '__version__ = "(.+)"')
    assert written == [importlib.metadata.version("netpipe")]
