"""Targets: the callables that they name, and the errors when they name none."""

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from netpipe.errors import MisuseError
from netpipe.jobs.targets import Factories, Target, resolve

SOURCE = "def loader():\n    return [1, 2]\n\nlimit = 3\n"


@pytest.fixture(autouse=True)
def _imports_forgotten() -> Iterator[None]:
    """Forget the modules that a target imports and the folders that it adds."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def write(folder: Path, name: str, source: str = SOURCE) -> Path:
    """Write a module."""
    path = folder / name
    path.write_text(source)
    return path


def test_a_module_and_a_name() -> None:
    """A dotted module is imported and its callable returned."""
    import collections.abc

    assert resolve(Target.parse("collections.abc:Iterator")) is collections.abc.Iterator


def test_a_file_and_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is found from the current folder, and its callable returned."""
    write(tmp_path, "stranger_pipeline.py")
    monkeypatch.chdir(tmp_path)
    assert resolve(Target.parse("stranger_pipeline.py:loader"))() == [1, 2]


def test_workers_can_import_what_a_file_defines(tmp_path: Path) -> None:
    """A file is imported under its own stem, and workers look in its folder too."""
    found = resolve(Target.parse(f"{write(tmp_path, 'stranger_workers.py')}:loader"))
    assert found.__module__ == "stranger_workers"
    assert sys.path.index(str(tmp_path)) > sys.path.index(sysconfig.get_path("stdlib"))
    assert sys.path.index(str(tmp_path)) < sys.path.index(sysconfig.get_path("purelib"))
    assert sys.path.count(str(tmp_path)) == 1


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (
            "a.b:loader 'my run.yml' out=gs://a",
            Target("a.b", "loader", ("my run.yml", "out=gs://a")),
        ),
        ("a:b/pipe.py:loader", Target("a:b/pipe.py", "loader")),
        ("my folder/pipe.py:loader", Target("my folder/pipe.py", "loader")),
    ],
)
def test_a_target_is_read(text: str, target: Target) -> None:
    """Neither a colon in the name of a folder, nor one in an argument, ends the module or file."""
    assert Target.parse(text) == target
    assert Target.parse(str(target)) == target


def test_a_target_with_arguments_is_called_with_them() -> None:
    """The factory calls the target with its arguments."""
    assert resolve(Target("json", "loads", ("[1]",)))() == [1]


def test_a_target_with_arguments_keeps_what_it_declares(tmp_path: Path) -> None:
    """Its storage and its FLOPs are those of the function."""
    declared = "def loader(n): return [n]\nloader.netpipe_storage = 'remote'\n"
    write(tmp_path, "stranger_declared.py", f"{declared}loader.flops_per_step = 3.0\n")
    found: Any = resolve(Target(f"{tmp_path}/stranger_declared.py", "loader", ("1",)))
    assert (found.netpipe_storage, found.flops_per_step, found()) == ("remote", 3.0, ["1"])


def test_a_file_may_be_named_like_one_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project has a conftest.py at its root, and another one for its performance tests."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "stranger_conftest.py", "def loader(): return ['root']\n")
    (tmp_path / "perf").mkdir()
    write(tmp_path / "perf", "stranger_conftest.py")
    assert resolve(Target.parse("perf/stranger_conftest.py:loader"))() == [1, 2]


def test_a_second_target_hides_no_module_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader's file may import the module later."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "stranger_utils.py", "where = 'root'\n")
    late = "def loader():\n    import stranger_utils\n    return stranger_utils.where\n"
    write(tmp_path, "stranger_late.py", late)
    (tmp_path / "perf").mkdir()
    write(tmp_path / "perf", "stranger_step.py")
    write(tmp_path / "perf", "stranger_utils.py", "where = 'perf'\n")
    loader = resolve(Target.parse("stranger_late.py:loader"))
    resolve(Target.parse("perf/stranger_step.py:loader"))
    assert loader() == "root"


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    """A target's module finds the modules beside it."""
    write(tmp_path, "stranger_helper.py")
    write(tmp_path, "stranger_main.py", "from stranger_helper import loader\n")
    assert resolve(Target.parse(f"{tmp_path}/stranger_main.py:loader"))() == [1, 2]


@pytest.mark.parametrize("target", ["", "loader", "module:", ":loader", "file.py", "a:b 'c"])
def test_a_target_has_two_parts(target: str) -> None:
    """A text of another form is refused."""
    with pytest.raises(MisuseError, match=rf"found {target!r}"):
        resolve(Target.parse(target))


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("absent.py:loader", r"absent\.py: .*found none"),
        ("no_such_module:loader", r"no_such_module: .*found none"),
        ("json.no_such:loader", r"json\.no_such: .*found none"),
        ("json:no_such", r"json: name .*dumps, .*; found 'no_such'"),
        ("json:__all__", r"json:__all__: .*callable; found list"),
    ],
)
def test_a_target_must_be_there(target: str, words: str) -> None:
    """The error names the file, module or name that is missing or of a wrong kind."""
    with pytest.raises(MisuseError, match=words):
        resolve(Target.parse(target))


def test_a_name_beside_the_wanted_one_is_offered(tmp_path: Path) -> None:
    """The error for a misspelt name lists the names in the file."""
    path = write(tmp_path, "stranger_names.py")
    with pytest.raises(MisuseError, match=r"limit, loader; .*'unloader'"):
        resolve(Target.parse(f"{path}:unloader"))


def test_a_file_must_not_hide_a_module(tmp_path: Path) -> None:
    """A file named like a loaded module is refused: workers would import the other one."""
    path = write(tmp_path, "json.py")
    with pytest.raises(MisuseError, match=r"json\.py: .* Rename"):
        resolve(Target.parse(f"{path}:loader"))


def test_a_file_that_is_no_module_is_refused(tmp_path: Path) -> None:
    """A stem with a dot cannot be imported, so the file must be renamed."""
    path = write(tmp_path, "stranger.config.py")
    with pytest.raises(MisuseError, match=r"stranger\.config .*Rename"):
        resolve(Target.parse(f"{path}:loader"))


def test_a_folder_with_the_name_of_an_installed_module_comes_last(tmp_path: Path) -> None:
    """The installed module is imported."""
    write(tmp_path, "stranger_first.py")
    write(tmp_path, "grain.py")
    resolve(Target.parse(f"{tmp_path}/stranger_first.py:loader"))
    assert sys.path[-1] == str(tmp_path)


@pytest.mark.parametrize("missing", ["no_such_module", "stranger"])
def test_what_a_target_itself_cannot_import_is_its_own_error(tmp_path: Path, missing: str) -> None:
    """A missing import inside the target is reported as such, even if the names are alike."""
    path = write(tmp_path, "stranger_broken.py", f"import {missing}\n")
    with pytest.raises(ModuleNotFoundError, match=f"'{missing}'"):
        resolve(Target.parse(f"{path}:loader"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"loader": [1, 2]}, r"netpipe_loader must return a callable; found \[1, 2\]"),
        ({"loader": None}, "netpipe_loader must return a callable; found None"),
        ({"step": (0, print)}, "netpipe_step must return a callable"),
        ({"synthetic": []}, "netpipe_synthetic must return a callable"),
        ({"fingerprint": None}, "netpipe_fingerprint must return text; found None"),
    ],
)
def test_values_of_fixtures_that_are_no_factories_are_refused(
    given: dict[str, Any], message: str
) -> None:
    """A fixture may return what its factory should make, and a baseline needs a text."""
    with pytest.raises(MisuseError, match=message):
        Factories(**{"loader": list, **given})
