"""Words that cannot be paths, refs or targets, in every command and flag that takes one."""

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

from netpipe.cli import main
from netpipe.cli.console import place_type
from netpipe.errors import MisuseError, SessionError
from netpipe.files.paths import exists, find_path_problem
from netpipe.jobs import parent
from netpipe.jobs.targets import Target
from netpipe.other_version import Version
from netpipe.plugin.options import _FLAGS, Options
from netpipe.worktrees import Checkout, Commit
from tests.command import Netpipe
from tests.repository import commit_files

WORDS = {
    "long": "x" * 300,
    "long-test": "x" * 300 + ".py::test_a",
    "long-target": "x" * 300 + ".py:loader",
    "deep": "x/" * 3000 + "x",
    "nul": "a\0b.py:c",
    "no-text": "a\udcff.py:b",
    "empty": "",
    "uri": "s3://bucket/data.py:loader",
}
VALUES = {"loader": "a:b", "target": "a:b", "out": "made", "path": "page.html", "base": "HEAD"}


def walk(command: click.Command, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command below one, with the names that start it."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from walk(inner, *names, name)
    else:
        yield names, command


def takes_words(parameter: click.Parameter) -> bool:
    """Return whether a parameter takes any text, or a path."""
    return parameter.type.name in ("text", "path", "file", "directory") and not getattr(
        parameter, "is_flag", False
    )


CASES = [
    pytest.param(names, parameter.name, word, id=f"{' '.join(names)}-{parameter.name}-{kind}")
    for names, command in walk(main)
    for parameter in command.params
    if takes_words(parameter)
    for kind, word in WORDS.items()
    if kind != "uri" or parameter.type is not place_type
]


def make_arguments(command: click.Command, chosen: str | None, word: str) -> list[str]:
    """Return the arguments of a command: the word for one parameter, others if required."""
    arguments = []
    for parameter in command.params:
        if parameter.name == chosen or parameter.required:
            value = word if parameter.name == chosen else VALUES.get(str(parameter.name), "absent")
            is_option = isinstance(parameter, click.Option)
            arguments.append(f"{parameter.opts[0]}={value}" if is_option else value)
    return arguments


def list_files(folder: Path) -> list[Path]:
    """Return the files of a checkout without git's own."""
    return sorted(path for path in folder.rglob("*") if ".git" not in path.parts)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with one test."""
    folder = tmp_path_factory.mktemp("checkout")
    commit_files(folder, {"perf_tests/test_a.py": ""})
    return folder


@pytest.fixture
def folder(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which commands start no processes."""
    monkeypatch.chdir(checkout)

    def fail(*_: object, **__: object) -> None:
        raise SessionError("not started")

    monkeypatch.setattr(parent, "run_session", fail)
    for module in ("netpipe.cli.lint", "netpipe.throughput.sessions", "netpipe.diagnosis.diagnose"):
        monkeypatch.setattr(import_module(module), "run_session", fail, raising=False)
    for module in ("netpipe.cli.ab", "netpipe.cli.baseline"):
        monkeypatch.setattr(import_module(module), "run_child", lambda *_: 2)
    return checkout


@pytest.mark.parametrize(("names", "chosen", "word"), CASES)
def test_no_word_gives_a_traceback(
    netpipe: Netpipe, folder: Path, names: tuple[str, ...], chosen: str, word: str
) -> None:
    """Each word is refused with 2, or treated as a missing name."""
    command = dict(walk(main))[names]
    before = list_files(folder)
    result = netpipe(*names, *make_arguments(command, chosen, word))
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code in (1, 2)
    kinds = {parameter.name: parameter.type for parameter in command.params}
    if isinstance(kinds[chosen], click.Path):
        assert result.exit_code == 2
        assert "the path must " in result.stderr
        assert list_files(folder) == before


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
@pytest.mark.parametrize("name", _FLAGS)
def test_no_flag_of_pytest_gives_a_traceback(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, name: str, word: str
) -> None:
    """An impossible path is a usage error; an empty one leaves the flag out."""
    monkeypatch.setattr(pytestconfig.option, f"netpipe_{name}", word)
    is_path = name in ("baselines", "trace", "json", "report")
    if is_path and (word or name == "baselines"):
        with pytest.raises(pytest.UsageError, match=f"--netpipe-{name} must "):
            Options.from_config(pytestconfig)
        return
    try:
        Options.from_config(pytestconfig)
    except pytest.UsageError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017  # most are valid refs and names


@pytest.mark.parametrize("word", WORDS.values(), ids=WORDS)
def test_an_impossible_target_is_misuse(word: str) -> None:
    """A target that can be neither a module nor a file is misuse."""
    with pytest.raises(MisuseError, match="found"):
        Target.parse(word)


def test_a_long_expression_is_no_path(tmp_path: Path) -> None:
    """`netpipe ab BASE HEAD -k EXPRESSION` looks for paths among all words."""
    version = Version(Checkout(Commit(tmp_path, "HEAD", "0" * 40), tmp_path / "there"), "", ())
    words = ["-k", " or ".join(["test_a"] * 50)]
    assert version.move_paths(words, tmp_path) == words


def test_paths_are_told_from_other_words(tmp_path: Path) -> None:
    """Existing and missing files are paths; a loop of links is not."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "größe").touch()
    assert exists(tmp_path / "größe")
    assert not exists(tmp_path / "absent")
    assert not find_path_problem(str(tmp_path / "absent"))
    assert "symbolic links" in find_path_problem(str(tmp_path / "loop" / "x"))
    assert not exists("x" * 300)
    assert find_path_problem(os.fsdecode(b"a\xff")) == "be UTF-8 without NUL characters"
