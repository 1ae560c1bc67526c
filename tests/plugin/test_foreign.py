"""The example of another project's pipeline."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plugin.project import leave_xdist

FOREIGN = Path(__file__).parents[2] / "examples" / "foreign"


def imports(path: Path) -> Iterator[str]:
    """Return the name of every module that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_it_uses_the_assertions_alone() -> None:
    """The example imports only the assertions of netpipe."""
    ours = {name for path in FOREIGN.glob("*.py") for name in imports(path) if "netpipe" in name}
    assert ours == {"netpipe.testing"}


def test_its_tests_are_found_in_a_folder_of_their_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests of a copy of the example can be collected."""
    leave_xdist(monkeypatch)
    for path in FOREIGN.glob("*.*"):
        (pytester.path / path.name).write_text(path.read_text(encoding="utf-8"))
    result = pytester.runpytest_subprocess("--benchmark-compare", "--collect-only", "-q")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["4 tests collected*"])
