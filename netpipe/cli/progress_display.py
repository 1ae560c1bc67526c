"""What a person sees while sessions run: a bar on a terminal, else a line for each phase."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from netpipe.cli.console import notes

if TYPE_CHECKING:
    from netpipe.session.progress import OnProgress, Progress

quiet_option = click.option(
    "--quiet", is_flag=True, help="Nothing on standard error but warnings and errors."
)


@contextmanager
def show_progress(label: str, *, quiet: bool = False) -> "Iterator[OnProgress | None]":
    """Show on standard error how far a session is, until it ends.

    Args:
        label: What the session is about; goes before all that is shown.
        quiet: Show nothing.

    Yields:
        What hears of it, for `parent.run_measurement` and its sisters; None: nobody does.
    """
    if quiet:
        yield None
    elif _may_be_drawn_on():
        from netpipe.cli.progress_bar import Bar

        with Bar(printable(label), notes) as bar:
            yield bar
    else:
        yield _Lines(label)


def _may_be_drawn_on() -> bool:
    """Return whether standard error is a terminal on which a line can be drawn anew."""
    return notes.file.isatty() and not (notes.no_color or notes.is_dumb_terminal)


class _Lines:
    """A line for each phase, once."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._told: set[str] = set()

    def __call__(self, progress: "Progress") -> None:
        if progress.doing not in self._told:
            self._told.add(progress.doing)
            notes.print(printable(f"{self._label}: {progress.doing}"), soft_wrap=True)


def printable(words: str) -> str:
    """Return words without what a terminal would act on: names in them are the user's."""
    return "".join(one if one.isprintable() else "?" for one in words)
