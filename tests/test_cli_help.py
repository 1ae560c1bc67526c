"""The help of every command, and its example."""

import shlex
from collections.abc import Iterator
from itertools import takewhile

import click
import pytest
from click.testing import CliRunner

from netpipe.cli import main
from netpipe.cli.init import FILES


def walk(command: click.Command, *names: str) -> Iterator[tuple[str, ...]]:
    """Yield the names of a command and all its subcommands."""
    yield names
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, *names, name)


COMMANDS = list(walk(main))


def parse(words: list[str]) -> tuple[str, ...]:
    """Parse a `netpipe` command line without running it; return its command."""
    command: click.Command = main
    names: tuple[str, ...] = ()
    while isinstance(command, click.Group):
        names = (*names, words[0])
        command, words = command.commands[words[0]], words[1:]
    command.make_context(words[0] if words else "", words)
    return names


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_the_help_ends_with_an_example(names: tuple[str, ...]) -> None:
    """The last line is a command that parses, calls this command, and names files of `init`."""
    result = CliRunner().invoke(main, [*names, "--help"])
    *_, heading, example = result.stdout.rstrip().splitlines()
    assert heading.strip() == "Example:"
    words = iter(shlex.split(example, comments=True))
    called = []
    while part := list(takewhile(lambda word: word not in ("&&", "|"), words)):
        assert part[0] == "netpipe"
        called.append(parse(part[1:]))
        targets = [word.partition(":")[0] for word in part if ".py:" in word]
        assert set(targets) <= set(FILES)
    assert called[-1][: len(names)] == names


def test_all_commands_are_walked() -> None:
    """Subcommands of groups are among them."""
    assert ("baseline", "diff") in COMMANDS
    assert () in COMMANDS
