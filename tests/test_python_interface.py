"""The public Python interface."""

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import netpipe
from netpipe import python_interface
from netpipe.diagnosis import diagnose as diagnosing
from netpipe.errors import MisuseError
from netpipe.jobs.request import REQUEST_VARIABLE
from netpipe.verdict.decision import judge
from netpipe.work_counts import reproducible_counts
from tests.reporting.examples import diagnosis
from tests.sessions_here import sessions_here as sessions_here

LOADER = """
import grain
import numpy as np

def rows(number):
    return {"x": np.full((4, 8), number, np.int32)}

def loader():
    return grain.MapDataset.range(1 << 30).map(rows).to_iter_dataset()
"""


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module that a user's script imports."""
    (tmp_path / "users_pipeline.py").write_text(LOADER)
    monkeypatch.syspath_prepend(str(tmp_path))
    import users_pipeline  # type: ignore[import-not-found]

    yield users_pipeline
    del sys.modules["users_pipeline"]


def test_a_loader_is_measured(pipeline: ModuleType) -> None:
    """A function of a file and its name give the same result; a notebook shows the page."""
    result = netpipe.measure(pipeline.loader, accelerator="emulated:30ms", budget_s=2.0)
    load_s = result.found.load_s_per_batch
    assert result.document["load_s_per_batch"]["median"] == load_s.median > 0
    assert result.document["verdict"]["kind"] == judge(result.found).kind
    shown = result._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert "emulated-30ms" in shown
    assert "<script" not in shown


@pytest.mark.usefixtures("pipeline")
def test_work_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result has the typed object, and a page."""
    once = functools.partial(reproducible_counts.count_work, hash_seeds=("0",))
    monkeypatch.setattr(reproducible_counts, "count_work", once)
    counted = netpipe.work(f"{tmp_path / 'users_pipeline.py'}:loader", batches=4)
    assert counted.found.batches == 4
    assert counted.found.arrays == {"x": "int32[4,8]"}
    assert "int32[4,8]" in counted._repr_html_()


@pytest.mark.usefixtures("sessions_here")
def test_the_order_is_linted(pipeline: ModuleType) -> None:
    """The result has the typed object and the document."""
    linted = netpipe.lint(pipeline.loader, intent="reproducible")
    assert linted.found.intent == "reproducible"
    assert linted.document["schema"] == "netpipe.lint/1"


def test_a_diagnosis_is_asked_for(
    pipeline: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The request has the loader's name and the settings."""
    asked: list[Any] = []

    class Found:
        def to_document(self) -> Any:
            return diagnosis()

    def run(*words: Any) -> Found:
        asked.append(words)
        return Found()

    monkeypatch.setattr(diagnosing, "run_diagnosis", run)
    result = netpipe.diagnose(pipeline.loader, budget_s=5.0)
    [(request, linting)] = asked
    loader = request.targets["loader"]
    assert str(loader) == f"{tmp_path / 'users_pipeline.py'}:loader"
    assert request.budget_s == 5.0
    assert linting.intent == "throughput"
    assert result.document == diagnosis()


class Holder:
    """A class with a factory method."""

    def loader(self) -> None:
        """Return nothing."""


def a_closure() -> Any:
    """Return a function that only this process knows."""

    def loader() -> None: ...

    return loader


@pytest.mark.parametrize(
    "factory",
    [a_closure(), lambda: None, Holder().loader, Holder.loader, functools.partial(a_closure)],
    ids=["closure", "lambda", "method", "function of a class", "partial"],
)
def test_what_a_child_process_cannot_import_is_refused(factory: Any) -> None:
    """The error has the way out."""
    with pytest.raises(MisuseError, match="Define it at the top level of a file"):
        netpipe.work(factory)


def test_a_function_of_a_notebook_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook's module has no file; a cell can write one."""
    notebook = ModuleType("__main__")
    exec("def loader(): ...", vars(notebook))
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    with pytest.raises(MisuseError, match=r"typed into a notebook.*%%writefile"):
        netpipe.lint(notebook.__dict__["loader"])


@pytest.mark.parametrize(
    ("module", "spec", "file", "name"),
    [
        ("a", "a", "/x/a.py", "/x/a.py:loader"),
        ("a", "a", "/x/a/__init__.py", "a:loader"),
        ("a.b", "a.b", "/x/a/b.py", "a.b:loader"),
        ("__main__", None, "/x/a.py", "/x/a.py:loader"),
        ("__main__", "a.b", "/x/a/b.py", "a.b:loader"),
        ("__main__", "a", "/x/a.py", "/x/a.py:loader"),
        ("_a", "_a", None, "_a:loader"),
    ],
    ids=["file", "package", "in package", "script", "-m a.b", "-m a", "built in"],
)
def test_a_child_finds_a_factory_by_its_name(
    monkeypatch: pytest.MonkeyPatch, module: str, spec: str | None, file: str | None, name: str
) -> None:
    """Only a file that is not part of a package is imported by its path."""
    holder = ModuleType(module)
    exec("def loader(): ...", vars(holder))
    monkeypatch.setitem(sys.modules, module, holder)
    holder.__spec__ = ModuleSpec(spec, None) if spec else None
    holder.__file__ = file
    assert python_interface._name(vars(holder)["loader"]) == name


def test_a_missing_loader_is_refused() -> None:
    """A step may be missing, but not the loader."""
    missing: Any = None
    with pytest.raises(MisuseError, match="NoneType: a child process must be able to import"):
        netpipe.lint(missing)


@pytest.mark.parametrize(
    ("call", "setting", "value", "kind"),
    [
        (netpipe.measure, "budget_s", "20", "float"),
        (netpipe.measure, "budget_s", None, "float"),
        (netpipe.measure, "budget_s", True, "float"),
        (netpipe.work, "batches", True, "int"),
        (netpipe.measure, "accelerator", None, "str"),
        (netpipe.measure, "trace", Path("traces"), "str"),
        (netpipe.diagnose, "flops_per_step", "1e9", r"float \| None"),
        (netpipe.work, "batches", 2.5, "int"),
        (netpipe.lint, "proves", "yes", "bool"),
    ],
)
def test_a_setting_of_another_type_is_refused(
    pipeline: ModuleType, call: Any, setting: str, value: Any, kind: str
) -> None:
    """The error names the setting, and nothing is started."""
    message = rf"{setting} must be of type {kind}; found {re.escape(repr(value))}"
    with pytest.raises(MisuseError, match=message):
        call(pipeline.loader, **{setting: value})


@pytest.mark.parametrize("setting", ["budget", "loaders"])
def test_an_unknown_setting_is_an_error(pipeline: ModuleType, setting: str) -> None:
    """An unknown setting is not ignored."""
    settings: Any = {setting: 3}
    with pytest.raises(TypeError, match=setting):
        netpipe.measure(pipeline.loader, **settings)


def test_an_accelerator_that_this_process_holds_is_refused(
    pipeline: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says that this process holds the accelerator."""
    monkeypatch.setattr("jax._src.xla_bridge.backends_are_initialized", lambda: True)
    monkeypatch.setattr("jax.extend.backend.backends", lambda: {"cpu": None, "cuda": None})
    for call in (netpipe.measure, netpipe.diagnose, netpipe.work):
        with pytest.raises(MisuseError, match="this process holds the cuda"):
            call(pipeline.loader, pipeline.loader)


def test_a_script_without_a_guard_is_told(tmp_path: Path) -> None:
    """A script without a guard is refused: its session would start endless sessions."""
    script = tmp_path / "users_script.py"
    script.write_text("import netpipe\ndef loader(): ...\nnetpipe.lint(loader)\n")
    environment = {name: value for name, value in os.environ.items() if name != REQUEST_VARIABLE}
    ended = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env={**environment, "JAX_PLATFORMS": "cpu"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 1
    assert 'put the call to netpipe under `if __name__ == "__main__":`' in ended.stderr


def test_the_package_offers_only_what_it_names() -> None:
    """Other names are unknown, as in any module."""
    assert set(netpipe.__all__) == {"Result", "diagnose", "lint", "measure", "watch", "work"}
    assert all(getattr(netpipe, name) for name in netpipe.__all__)
    with pytest.raises(AttributeError, match="no attribute 'gauge'"):
        netpipe.gauge  # noqa: B018
