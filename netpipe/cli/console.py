"""What all commands share: consoles, options, exit codes, and how results and errors are shown."""

import json
import shlex
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.text import Text

from netpipe.errors import NetpipeError

FINE: Final = 0
FAILED: Final = 1
MISUSE: Final = 2
INCONCLUSIVE: Final = 3

# The extra "workload" of pyproject.toml installs them.
_WORKLOAD_PACKAGES: Final = ("optax", "pyarrow")

# Output may contain the user's code and paths: metrics[name] is no markup, and [:x:] no emoji.
notes = Console(stderr=True, markup=False, emoji=False, highlight=False)
output = Console(
    width=None if sys.stdout.isatty() else 118, markup=False, emoji=False, highlight=False
)
folder = click.Path(file_okay=True, path_type=Path)
as_json = click.option("--json", "as_json", is_flag=True, help="One JSON document, no table.")
as_html = click.option(
    "--html", type=folder, metavar="FILE", help="Also write one HTML page that needs nothing else."
)
quiet_option = click.option(
    "--quiet", is_flag=True, help="Nothing on standard error but warnings and errors."
)


class ErrorReportingGroup(click.Group):
    """Prints warnings and errors for the user as one line each, and exits with 2 after an error."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default", UserWarning)
                warnings.showwarning = _print_warning
                return super().invoke(ctx)
        except NetpipeError as error:
            message = str(error)
        except ModuleNotFoundError as error:
            if error.name not in _WORKLOAD_PACKAGES:
                raise
            message = (
                f"this repository's own data and step need {error.name}; found none. "
                "Install them: pip install 'netpipe[workload]'"
            )
        click.echo(f"netpipe: {message}", err=True)
        sys.exit(MISUSE)


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    notes.print(f"netpipe: warning: {message}", soft_wrap=True)


def bold_first(first: str, rest: str = "") -> Text:
    """Return a line whose first words are bold."""
    return Text.assemble((first, "bold"), rest)


def print_json(document: object) -> None:
    """Print one document on standard output."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))


def command_line() -> str:
    """Return the command that the user typed, for a result that says how to repeat it."""
    return shlex.join(["netpipe", *sys.argv[1:]])


def write_html(document: Mapping[str, Any], path: Path) -> None:
    """Write the page of a command's document."""
    from netpipe.page.rendering import write_page

    write_page([document], path, "--html", repeat=command_line())
