"""What a project declares that its environment needs: alike in two versions, or not."""

import tomllib
from collections.abc import Collection, Iterator
from configparser import ConfigParser
from configparser import Error as ConfigError
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

_WHOLE_FILES: Final = (
    "setup.py",
    "requirements*.txt",
    "requirements*.in",
    "*.lock",
    "Pipfile",
    "pixi.toml",
    "environment*.yml",
)
_OF_PROJECT: Final = (
    "dependencies",
    "optional-dependencies",
    "requires-python",
    "scripts",
    "gui-scripts",
    "entry-points",
)
_TOOLS: Final = ("poetry", "pdm", "uv", "pixi")


def declared(folder: Path, files: Collection[str]) -> dict[str, object]:
    """Return what files declare of dependencies, by name; equal where alike.

    Args:
        folder: Where they lie.
        files: The names to look at.
    """
    found: dict[str, object] = {}
    for name in files:
        if any(fnmatch(name, one) for one in _WHOLE_FILES):
            found[name] = (folder / name).read_bytes()
    for name, read in (("pyproject.toml", _of_pyproject), ("setup.cfg", _of_setup_cfg)):
        if name in files:
            # A file that cannot be read is like another one only if it is the same.
            text = (folder / name).read_text(encoding="utf-8", errors="replace")
            try:
                found[name] = read(text)
            except (tomllib.TOMLDecodeError, ConfigError):
                found[name] = text
    return found


def _of_pyproject(text: str) -> dict[str, Any]:
    document = tomllib.loads(text)
    project, tools = document.get("project", {}), document.get("tool", {})
    return {
        **{name: project.get(name) for name in _OF_PROJECT},
        "dependency-groups": document.get("dependency-groups"),
        **{f"tool.{name}": tools.get(name) for name in _TOOLS},
    }


def _of_setup_cfg(text: str) -> dict[str, dict[str, str]]:
    parser = ConfigParser(interpolation=None)
    parser.read_string(text)
    return {name: dict(parser[name]) for name in _options_of(parser)}


def _options_of(parser: ConfigParser) -> Iterator[str]:
    return (name for name in parser.sections() if name.startswith("options"))
