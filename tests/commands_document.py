"""The generated part of docs/commands.md; `python -m tests.commands_document` writes it."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from netpipe.cli import main

DOCUMENT = Path(__file__).parent.parent / "docs" / "commands.md"
GENERATED = re.compile(r"(?<=<!-- generated -->\n).*(?=<!-- end -->)", re.DOTALL)


def list_commands(command: click.Command, *names: str) -> Iterator[tuple[str, click.Command]]:
    """Yield each command that runs, by its whole name."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from list_commands(inner, *names, name)
    else:
        yield " ".join(names), command


def write_tables() -> str:
    """Return a table of the commands and one of their options."""
    commands = ["| command | does |", "|---|---|"]
    options: dict[tuple[str, str], list[str]] = {}
    for name, command in list_commands(main):
        context = click.Context(command)
        words = (
            describe_argument(each) for each in command.params if isinstance(each, click.Argument)
        )
        usage = escape(" ".join(["netpipe", name, *words]))
        commands.append(f"| `{usage}` | {escape(command.get_short_help_str(200))} |")
        for option in command.params:
            if isinstance(option, click.Option):
                options.setdefault(describe_option(option, context), []).append(name)
    rows = [f"| {flag} | {', '.join(names)} | {text} |" for (flag, text), names in options.items()]
    heading = ["", "| option | commands | meaning |", "|---|---|---|"]
    return "\n".join(["", *commands, *heading, *sorted(rows), "", ""])


def describe_argument(argument: click.Argument) -> str:
    """Return the placeholder of an argument: `PATH`, or `[FOLDER]` if it is optional."""
    if argument.metavar:
        return argument.metavar
    name = f"{argument.name}".upper()
    return (name if argument.required else f"[{name}]") + "..." * (argument.nargs == -1)


def describe_option(option: click.Option, context: click.Context) -> tuple[str, str]:
    """Return an option with its value, and its help with the default."""
    value = "" if option.is_flag else option.metavar or describe_value(option)
    default = option.get_default(context)
    has_default = option.show_default and not option.is_flag and default is not None
    number = f"{default:g}" if isinstance(default, float) else default
    text = f"{option.help} Default: {number}." if has_default else f"{option.help}"
    return f"`{escape(' '.join([option.opts[0], value]).strip())}`", escape(text)


def describe_value(option: click.Option) -> str:
    """Return the choices of an option, or the kind of its value."""
    if isinstance(option.type, click.Choice):
        return "|".join(option.type.choices)
    kind = option.type.name.upper().removesuffix(" RANGE")
    return "N" if kind == "INTEGER" else kind


def escape(text: str) -> str:
    """Escape characters that have a meaning in a table."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    DOCUMENT.write_text(GENERATED.sub(lambda _: write_tables(), DOCUMENT.read_text()))
