"""The commands: their arguments and flags."""

from collections.abc import Iterator
from typing import Any

import click

from netpipe.cli import main
from tests.outside.golden import check_lines


def describe(names: tuple[str, ...], command: click.Command) -> Iterator[str]:
    """Yield a line for a command, each of its parameters, and its subcommands."""
    takes_others = command.context_settings.get("ignore_unknown_options", False)
    words = [*names, *["hidden"] * command.hidden, *["takes unknown options"] * takes_others]
    yield " ".join(words)
    context = click.Context(command)
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    for number, argument in enumerate(arguments, 1):
        yield f"  argument {number}: {describe_parameter(argument, context)}"
    for option in sorted(set(command.params) - set(arguments), key=lambda each: each.opts):
        flags = "/".join([*option.opts, *option.secondary_opts])
        yield f"  {flags}: {describe_parameter(option, context)}"
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from describe((*names, name), inner)


def describe_parameter(parameter: click.Parameter, context: click.Context) -> str:
    """Return the type, the default and other properties of a parameter."""
    default = parameter.get_default(context)
    is_flag = getattr(parameter, "is_flag", False)
    if is_flag or "UNSET" in repr(default):  # click's missing default depends on its version
        default = default is True if is_flag else None
    known = {
        "several": parameter.multiple or parameter.nargs == -1,
        "hidden": getattr(parameter, "hidden", False),
        "counted": getattr(parameter, "count", False),
        f"variable {parameter.envvar}": parameter.envvar,
        f"nargs {parameter.nargs}": parameter.nargs not in (1, -1),
    }
    kind = "flag" if is_flag else describe_type(parameter.type)
    needed = "required" if parameter.required else f"default {default}"
    return ", ".join([kind, needed, *(text for text, holds in known.items() if holds)])


def describe_type(kind: Any) -> str:
    """Return the name of a type, with its choices, range, or path requirements."""
    if isinstance(kind, click.Choice):
        return f"one of {' '.join(map(str, kind.choices))}"
    if isinstance(kind, click.IntRange | click.FloatRange):
        left, right = "(" if kind.min_open else "[", ")" if kind.max_open else "]"
        return f"{kind.name} {left}{kind.min}, {kind.max}{right}"
    return f"existing {kind.name}" if getattr(kind, "exists", False) else kind.name


def test_the_commands_keep_their_arguments_and_flags() -> None:
    """Every command keeps its parameters, types and defaults."""
    check_lines("commands", describe(("netpipe",), main))
