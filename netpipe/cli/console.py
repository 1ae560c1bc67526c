"""Consoles, options, exit codes, and the printing of results and errors, for all commands."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TextIO, cast

import click
from click.decorators import FC
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from netpipe.errors import NetpipeError
from netpipe.files.paths import exists, find_path_problem
from netpipe.files.whole_file import write_whole
from netpipe.jobs.request import START_LIMIT_S
from netpipe.jobs.targets import Target
from netpipe.printable import make_loggable, make_printable
from netpipe.signals import signal_when_parent_ends

FINE: Final = 0
FAILED: Final = 1
MISUSE: Final = 2
INCONCLUSIVE: Final = 3

# The extra "workload" in pyproject.toml installs these packages.
_WORKLOAD_PACKAGES: Final = ("optax", "pyarrow")
# Flags whose values may be existing paths, but do not name tests to run.
_FLAGS_WITH_VALUES: Final = re.compile(
    "-[kmc]|--(config-file|rootdir|confcutdir|basetemp|ignore|ignore-glob|deselect|junit-?xml|"
    "log-file|benchmark-json|netpipe-[a-z-]+)"
)


def _open_null(mode: str) -> TextIO:
    return cast("TextIO", Path(os.devnull).open(mode, encoding="utf-8"))


class PrintableConsole(Console):
    """Makes all text printable but keeps rich's own control codes."""

    def on_broken_pipe(self) -> None:
        """Leave it to the command to end; rich would exit with 1."""
        raise BrokenPipeError

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Render anything as printable text, including bars that are redrawn."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else make_printable(text), style, control)


class PathType(click.Path):
    """A path parameter; an impossible path is a usage error before the command does anything."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the path."""
        if problem := find_path_problem(str(value)):
            self.fail(f"the path must {problem}; found {value!r}", param, ctx)
        return super().convert(value, param, ctx)


# A closed stream is None, and the next opened file would get its file descriptor.
for _name, _mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
    if getattr(sys, _name) is None:
        setattr(sys, _name, _open_null(_mode))

# Brackets and colons in user code and paths are printed literally, without markup or emoji.
notes = PrintableConsole(stderr=True, markup=False, emoji=False, highlight=False)
output = PrintableConsole(
    width=None if sys.stdout.isatty() else 118, markup=False, emoji=False, highlight=False
)
path_type = PathType(path_type=Path)
place_type: Any = click.types.FuncParamType(lambda x: x if "://" in x else path_type(x))
place_type.name, place_type.shell_complete = "path", path_type.shell_complete
target_type = click.types.FuncParamType(Target.parse)
target_type.name = "text"  # shown by --help
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
html_option = click.option(
    "--html", type=path_type, metavar="FILE",
    help="Also write one self-contained HTML page.",
)  # fmt: skip


def _set_quiet(context: click.Context, _: click.Parameter, quiet: bool) -> None:
    notes.quiet = quiet
    # Click does not close the context of a command with an invalid argument.
    context.find_root().call_on_close(partial(setattr, notes, "quiet", False))


quiet_option = click.option(
    "--quiet", is_flag=True, expose_value=False, callback=_set_quiet,
    help="Print only warnings and errors on standard error.",
)  # fmt: skip


def seconds_option(flag: str, default: float, text: str) -> Callable[[FC], FC]:
    """Return an option in seconds; its parameter is named like the flag, plus `_s`."""
    name = f"{flag.removeprefix('--').replace('-', '_')}_s"
    return click.option(
        flag, name, type=float, metavar="S", default=default, show_default=True, help=text
    )


batch_limit_option = seconds_option(
    "--batch-limit", 10.0, "Seconds without a batch after which the loader counts as hanging."
)


def start_limit_option(text: str) -> Callable[[FC], FC]:
    """Return the option that limits the time of a loader's start."""
    return seconds_option("--start-limit", START_LIMIT_S, text)


def reading_options(command: FC) -> FC:
    """Add the options of a command that reads batches: its limits, --quiet and --json."""
    start_limit = start_limit_option("Seconds allowed until the first batch.")
    for option in (json_option, quiet_option, start_limit, batch_limit_option):
        command = option(command)
    return command


class ErrorReportingGroup(click.Group):
    """Prints each warning and error as one line, and exits with 2 after an error."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line; report a system error, such as a full disk, as one line too."""
        if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
            sys.stdout.reconfigure(errors="replace")  # A terminal may lack a character.
        try:
            return super().main(*args, **extra)
        except OSError as error:
            place = "" if error.filename is None else f"{error.filename}: "
            message = make_loggable(f"netpipe: {place}{error.strerror or error}")
            with suppress(OSError):
                click.echo(message, err=True)
            try:
                sys.stdout.flush()
            except OSError:  # Flushing would fail again at exit, with a traceback.
                sys.stdout = _open_null("w")
            sys.exit(MISUSE)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; report warnings and netpipe's own errors as one line each."""
        try:
            with warnings.catch_warnings(action="default", category=UserWarning):
                warnings.showwarning = _print_warning
                return super().invoke(ctx)
        # click's 1 would mean a regression.
        except (KeyboardInterrupt, click.Abort):
            sys.exit(128 + signal.SIGINT)
        except BrokenPipeError:
            sys.stdout = _open_null("w")  # Flushing would fail again at exit, with a traceback.
            sys.exit(128 + signal.SIGPIPE)
        except NetpipeError as error:
            message = str(error)
        except ModuleNotFoundError as error:
            if error.name not in _WORKLOAD_PACKAGES:
                raise
            message = (
                f"this repository's own data and step need {error.name}; found none. "
                "Install them: pip install 'netpipe[workload]'"
            )
        click.echo(make_loggable(f"netpipe: {message}"), err=True)
        sys.exit(MISUSE)


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    click.echo(make_loggable(f"netpipe: warning: {message}"), err=True)


def bold_first(first: str, rest: str = "") -> Text:
    """Return a line whose first words are bold."""
    return Text.assemble((first, "bold"), rest)


def print_json(document: object) -> None:
    """Print one document on standard output."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))


def command_line() -> str:
    """Return the command that the user typed, to be shown on pages."""
    return shlex.join(["netpipe", *sys.argv[1:]])


def names_tests(word: str) -> bool:
    """Return whether an argument of pytest, or the value of a flag, is an existing path."""
    return exists(word.partition("::")[0])


def with_tests(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments of pytest, after `perf_tests`, or else `perf`, unless one is a path."""
    folder = "perf" if exists("perf") and not exists("perf_tests") else "perf_tests"
    is_value = _FLAGS_WITH_VALUES.fullmatch
    named = (word for flag, word in pairwise(("", *words)) if not is_value(flag))
    return words if any(map(names_tests, named)) else (folder, *words)


def run_child(command: list[str], folder: Path, variables: Mapping[str, str]) -> int:
    """Run a command that ends when this process ends; return its exit code."""
    notes.print(" ".join(command), soft_wrap=True)
    follow = partial(signal_when_parent_ends, signal.SIGTERM)
    environment = {**os.environ, **variables}
    with subprocess.Popen(command, cwd=folder, env=environment, preexec_fn=follow) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:  # The terminal interrupted the child too; let it clean up.
            child.wait()
            raise
        except SystemExit:  # A signal may have reached only this process.
            child.terminate()
            raise


def write_html(document: Mapping[str, Any], path: Path | None) -> None:
    """Write a document as an HTML page if a path is given."""
    if path is None:
        return
    from netpipe.reporting.rendering import render_page

    write_whole(path, render_page([document], repeat=command_line()), "--html")
