"""Accepted and refused origins of loaded code."""

import importlib
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import pytest

from netpipe.errors import MisuseError
from netpipe.jobs import code_origin
from netpipe.jobs.code_origin import check_origin
from netpipe.jobs.registry import run_job
from netpipe.jobs.targets import Factories
from netpipe.measuring.measure_request import MeasureRequest
from tests.jobs.session_targets import tiny_loader
from tests.repository import commit_files, init
from tests.root_process import ROOT


def module(file: Path | None) -> dict[str, ModuleType]:
    """A module `project` that was loaded from a file."""
    made = ModuleType("project")
    made.__file__ = None if file is None else str(file)
    return {"project": made}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[str, list[str]]:
    """This version's checkout, and the other one."""
    return str(init(tmp_path / "mine")), [str(tmp_path / "other")]


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
    """A worktree, or an environment, may lie inside the checkout that must not be used."""
    other = str(tmp_path)
    init(tmp_path / "tmp" / "mine")
    init(tmp_path / "mine")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    for inside in (".venv/lib/project.py", "tmp/mine/project.py"):
        check_origin(str(tmp_path / "tmp" / "mine"), [other], module(tmp_path / inside))
    monkeypatch.setattr(sys, "prefix", str(tmp_path.parent))
    with pytest.raises(MisuseError):
        check_origin(str(tmp_path / "mine"), [other], module(tmp_path / "project.py"))


def test_a_session_without_a_checkout_may_load_any_code(tmp_path: Path) -> None:
    """A session that is compared with no other version is not checked."""
    check_origin("", (), module(tmp_path / "project.py"))


def test_a_session_checks_the_code_that_it_ran(tmp_path: Path) -> None:
    """A session that ran code of a forbidden checkout writes no measurement."""
    request = MeasureRequest(
        result=str(tmp_path / "result.json"),
        accelerator="emulated:1ms",
        budget_s=0.2,
        code_from=str(init(tmp_path)),
        not_from=(str(ROOT),),
    )
    run_job(request, lambda: Factories(tiny_loader))
    error = json.loads((tmp_path / "result.json").read_text())["error"]
    assert error["kind"] == "misuse"
    assert f"{tmp_path}; found" in error["message"]
    assert str(ROOT) in error["message"]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout whose test and packages are imported during a test, and forgotten after it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield tmp_path / "checkout"
    for name in set(sys.modules) - before:
        del sys.modules[name]
    importlib.invalidate_caches()


Installed = Callable[..., Path]


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    """Copies folders to where an installation would put them, and imports from there."""

    def install(*sources: Path) -> Path:
        target = tmp_path / "site-packages"
        for source in sources:
            for file in (source, *source.rglob("*.py")):
                if file.is_file():
                    copy = target / file.relative_to(source.parent)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.write_bytes(file.read_bytes())
        sys.path.insert(0, str(target))
        return target

    return install


@pytest.mark.parametrize(
    ("file", "shipped", "name"),
    [
        ("src/inner_4/__init__.py", "src/inner_4", "inner_4"),
        ("src/inner_4/sub/deep.py", "src/inner_4", "inner_4.sub.deep"),
        ("inner_4/__init__.py", "inner_4", "inner_4"),
        ("packages/one/src/inner_4/__init__.py", "packages/one/src/inner_4", "inner_4"),
        ("src/company_4/inner/__init__.py", "src/company_4", "company_4.inner"),
        ("src/company_4/inner.py", "src/company_4", "company_4.inner"),
        ("single_4.py", "single_4.py", "single_4"),
        ("lib/python/single_4.py", "lib/python/single_4.py", "single_4"),
    ],
)
def test_an_installed_copy_is_refused(
    checkout: Path, installed: Installed, file: str, shipped: str, name: str
) -> None:
    """A package that the checkout contains, in any layout, must be imported from there."""
    files = {file: ""}
    if name == "inner_4.sub.deep":
        files |= {"src/inner_4/__init__.py": "", "src/inner_4/sub/__init__.py": ""}
        files["src/__init__.py"] = ""  # a common mistake, which hides no package
    commit_files(checkout, files)
    target = installed(checkout / shipped)
    importlib.import_module(name)
    with pytest.raises(MisuseError, match=f"from {checkout}") as raised:
        check_origin(str(checkout), [])
    assert f"found {target}" in str(raised.value)
    assert "pip install -e" in str(raised.value)


def test_a_package_of_the_checkout_passes(checkout: Path) -> None:
    """A package that was imported from the checkout's own folder is accepted."""
    commit_files(checkout, {"src/inner_4/__init__.py": "import json, os.path, pytest"})
    sys.path.insert(0, str(checkout / "src"))
    importlib.import_module("inner_4")
    check_origin(str(checkout), [])


def test_a_new_file_of_the_working_tree_passes(checkout: Path) -> None:
    """A package that is not committed yet is part of the working tree that is measured."""
    commit_files(checkout, {"README": ""})
    (checkout / "fresh_4.py").write_text("")
    sys.path.insert(0, str(checkout))
    importlib.import_module("fresh_4")
    check_origin(str(checkout), [])


@pytest.mark.parametrize("folder", [".venv/lib/site-packages", "build/lib"])
def test_a_copy_inside_the_checkout_is_refused(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """An environment and a build folder are not the checkout's code, although they lie in it."""
    ignored = {".gitignore": "build"} if folder.startswith("build") else {}
    commit_files(checkout, {"src/inner_4/__init__.py": "", **ignored})
    if not ignored:
        monkeypatch.setattr(sys, "prefix", str(checkout / ".venv"))
    copy = checkout / folder / "inner_4" / "__init__.py"
    copy.parent.mkdir(parents=True)
    copy.write_text("")
    sys.path.insert(0, str(checkout / folder))
    importlib.import_module("inner_4")
    with pytest.raises(MisuseError, match=f"src/inner_4/__init__.py; found {copy}"):
        check_origin(str(checkout), [])


def test_a_zip_file_is_refused(checkout: Path, tmp_path: Path) -> None:
    """A package that was imported from an archive is a copy too."""
    commit_files(checkout, {"src/inner_4/__init__.py": ""})
    with zipfile.ZipFile(tmp_path / "inner.zip", "w") as archive:
        archive.writestr("inner_4/__init__.py", "")
    sys.path.insert(0, str(tmp_path / "inner.zip"))
    importlib.import_module("inner_4")
    with pytest.raises(MisuseError, match=r"inner\.zip/inner_4"):
        check_origin(str(checkout), [])


def test_a_lazy_import_in_a_worker_is_refused(checkout: Path, installed: Installed) -> None:
    """Imports that only workers will execute are looked up and followed."""
    files = {
        "perf_4.py": "def transform():\n    from middle_4 import step",
        "middle_4.py": "def step():\n    import inner_4.sub",
        "src/inner_4/__init__.py": "",
        "src/inner_4/sub.py": "",
    }
    commit_files(checkout, files)
    installed(checkout / "src" / "inner_4")
    sys.path.insert(0, str(checkout))
    importlib.import_module("perf_4")
    with pytest.raises(MisuseError, match=rf"^inner_4 .* {checkout}, .*inner_4"):
        check_origin(str(checkout), [])
    assert "inner_4" not in sys.modules


def test_other_packages_pass(checkout: Path, tmp_path: Path) -> None:
    """Names that the checkout uses inside its packages, or for files of the standard library."""
    inside = ["vendored_4/__init__.py", "helper_4.py"]
    files = {f"src/inner_4/{name}": "" for name in inside} | {"tools/types.py": ""}
    files["src/inner_4/__init__.py"] = "import vendored_4, helper_4, types, company_4.other"
    commit_files(checkout, {**files, "src/company_4/mine.py": ""})
    packages = tmp_path / "packages"
    for name in (*inside, "company_4/other.py"):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text("")
    sys.path[:0] = [str(packages), str(checkout / "src")]
    importlib.import_module("inner_4")
    check_origin(str(checkout), [])


@pytest.mark.parametrize(("owner", "is_refused"), [("grain-4", False), ("my-project", True)])
def test_a_vendored_copy_does_not_refuse_an_installed_package(
    checkout: Path,
    installed: Installed,
    monkeypatch: pytest.MonkeyPatch,
    owner: str,
    is_refused: bool,
) -> None:
    """A package of another distribution is not a copy, even if the checkout has its name."""
    vendored = "third_party/grain_4"
    project = '[project]\nname = "My.Project"\n'
    commit_files(checkout, {"pyproject.toml": project, f"{vendored}/__init__.py": ""})
    installed(checkout / vendored)
    importlib.import_module("grain_4")
    monkeypatch.setattr(code_origin, "_list_owners", lambda: {"grain_4": [owner]})
    with pytest.raises(MisuseError) if is_refused else nullcontext():
        check_origin(str(checkout), [])


def test_a_compiled_module_of_the_project_is_refused(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module without a source file in the checkout is recognised by its distribution."""
    commit_files(checkout, {"pyproject.toml": '[project]\nname = "My.Project"\n', "fast.c": ""})
    info = tmp_path / "site-packages" / "my_project-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-project\nVersion: 1\n")
    (info / "RECORD").write_text("fast_4.so,,\n")
    sys.path.insert(0, str(info.parent))
    monkeypatch.setattr(code_origin, "_list_owners", lambda: {"fast_4": ["my-project"]})
    compiled = ModuleType("fast_4")
    compiled.__file__ = str(info.parent / "fast_4.so")
    monkeypatch.setitem(sys.modules, "fast_4", compiled)
    with pytest.raises(MisuseError, match=r"fast_4 .*my-project"):
        check_origin(str(checkout), [])


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    """If git cannot list the checkout's files, none is taken for its code."""
    with pytest.raises(MisuseError, match="git"):
        check_origin(str(tmp_path), [])


def test_a_session_checks_its_code_before_it_measures(
    checkout: Path, installed: Installed, tmp_path: Path
) -> None:
    """A session that would measure an installed copy ends before its rounds."""
    commit_files(checkout, {"inner_4.py": ""})
    installed(checkout / "inner_4.py")
    importlib.import_module("inner_4")
    request = MeasureRequest(
        result=str(tmp_path / "result.json"),
        accelerator="emulated:1ms",
        code_from=str(checkout),
    )
    run_job(request, lambda: Factories(lambda: pytest.fail("measured")))
    error = json.loads((tmp_path / "result.json").read_text())["error"]
    assert error["kind"] == "misuse"
    assert "inner_4 must" in error["message"]
