"""Progress on standard error: a bar on a terminal, else a line for each phase of a session."""

from collections.abc import Iterator
from contextlib import contextmanager

from netpipe.cli.console import notes
from netpipe.results.units import format_minutes
from netpipe.session.progress import OnProgress, Progress


class ProgressBar:
    """A bar with a description, how much is done, and a time.

    One that `is_timed` counts seconds: it shows the time that is left and is removed at its end.
    Any other shows the time that has passed, and stays.
    """

    def __init__(self, label: str, *, is_timed: bool = False) -> None:
        from rich import progress
        from rich.table import Column

        # On a narrow terminal the description is cut, not the time.
        words = Column(ratio=1, no_wrap=True, overflow="ellipsis") if is_timed else None
        time = progress.TextColumn("{task.fields[time]}")
        self._is_timed = is_timed
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}", markup=False, table_column=words),
            progress.BarColumn(bar_width=10 if is_timed else 40),
            progress.TaskProgressColumn(),
            time if is_timed else progress.TimeElapsedColumn(),
            console=notes,
            expand=is_timed,
            # A thread that draws would take CPU time from the session that is measured.
            auto_refresh=not is_timed,
            transient=is_timed,
        )
        self._task = self._bar.add_task(label, total=None, time="")

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, done: float, total: float | None, description: str | None = None) -> None:
        """Show how much is done of how much, None: unknown; and what is done now, if it changed."""
        time = format_minutes(self._bar.tasks[0].elapsed or 0.0)
        if total is not None and done < total:
            time = f"{format_minutes(total - done)} left"
        self._bar.update(
            self._task, completed=done, total=total, description=description, time=time
        )
        if self._is_timed:
            self._bar.refresh()


@contextmanager
def show_progress(label: str, *, quiet: bool = False) -> Iterator[OnProgress | None]:
    """Show on standard error how far a session is; yields what `run_session` calls `progress`."""
    if quiet:
        yield None
    elif notes.file.isatty() and not (notes.no_color or notes.is_dumb_terminal):
        with ProgressBar(printable(label), is_timed=True) as bar:

            def show(progress: Progress) -> None:
                description = printable(f"{label}: {progress.description}")
                bar(progress.done_s, progress.of_s or None, description)

            yield show
    else:
        printed: set[str] = set()

        def print_phase(progress: Progress) -> None:
            if progress.doing not in printed:
                printed.add(progress.doing)
                notes.print(printable(f"{label}: {progress.doing}"), soft_wrap=True)

        yield print_phase


def printable(words: str) -> str:
    """Replace the characters that a terminal would act on, which names of users may hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in words)
