"""Where loaded code may come from, and where not."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from netpipe.harness.child import Factories, serve
from netpipe.harness.errors import MisuseError
from netpipe.harness.origin import check_origin
from netpipe.harness.session import SessionRequest
from tests.harness.session_targets import tiny_loader
from tests.root_process import ROOT


def module(file: Path | None) -> dict[str, ModuleType]:
    """A module `project` that was loaded from a file."""
    made = ModuleType("project")
    made.__file__ = None if file is None else str(file)
    return {"project": made}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, list[str]]:
    """This version's checkout, and the other one."""
    return str(tmp_path / "mine"), [str(tmp_path / "other")]


def test_code_of_the_other_checkout_is_refused(
    tmp_path: Path, folders: tuple[str, list[str]]
) -> None:
    """The message names the module and its file."""
    file = tmp_path / "other" / "src" / "project.py"
    with pytest.raises(MisuseError, match=f"found project from {file}"):
        check_origin(*folders, module(file))


@pytest.mark.parametrize("name", ["mine/project.py", "elsewhere/project.py", "otherwise/a.py", ""])
def test_other_code_is_fine(tmp_path: Path, folders: tuple[str, list[str]], name: str) -> None:
    """Code of this version, code that is installed elsewhere, and modules without a file pass."""
    check_origin(*folders, module(tmp_path / name if name else None))


def test_the_innermost_folder_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worktree, and an environment, may lie inside the checkout that is not to be used."""
    other = str(tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    for inside in (".venv/lib/project.py", "tmp/mine/project.py"):
        check_origin(str(tmp_path / "tmp" / "mine"), [other], module(tmp_path / inside))
    monkeypatch.setattr(sys, "prefix", str(tmp_path.parent))
    with pytest.raises(MisuseError):
        check_origin(str(tmp_path / "mine"), [other], module(tmp_path / "project.py"))


def test_nothing_is_refused_unasked(tmp_path: Path) -> None:
    """A session that is compared with no other version may load what it likes."""
    check_origin("", (), module(tmp_path / "project.py"))


def test_a_session_looks_at_what_it_ran(tmp_path: Path) -> None:
    """A session that measured code of a checkout it was not to use writes no measurement."""
    request = SessionRequest(
        "measure",
        str(tmp_path / "result.json"),
        accelerator="emulated:1ms",
        budget_s=0.2,
        code_from=str(tmp_path),
        not_from=(str(ROOT),),
    )
    serve(request, Factories(tiny_loader))
    error = json.loads((tmp_path / "result.json").read_text())["error"]
    assert error["kind"] == "misuse"
    assert f"must run the code of {tmp_path}; found" in error["message"]
    assert str(ROOT) in error["message"]
