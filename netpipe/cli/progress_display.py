"""Progress on standard error: a bar on a terminal, else a line for each phase of a session."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from netpipe.cli.console import notes
from netpipe.results.units import format_minutes
from netpipe.session.progress import OnProgress, Progress


@contextmanager
def show_bar(label: str, *, is_timed: bool = False) -> Iterator[Callable[..., None]]:
    """Show a bar with a description, how much is done, and a time.

    One that `is_timed` counts seconds: it shows the time that is left and is removed at its end.
    Any other shows the time that has passed, and stays.

    Yields:
        Takes how much is done, of how much (None: unknown), and the description if it changed.
    """
    from rich import progress
    from rich.table import Column

    # On a narrow terminal the description is cut, not the time.
    words = Column(ratio=1, no_wrap=True, overflow="ellipsis") if is_timed else None
    time_column = progress.TextColumn("{task.fields[time]}")
    bar = progress.Progress(
        progress.TextColumn("{task.description}", markup=False, table_column=words),
        progress.BarColumn(bar_width=10 if is_timed else 40),
        progress.TaskProgressColumn(),
        time_column if is_timed else progress.TimeElapsedColumn(),
        console=notes,
        expand=is_timed,
        # A thread that draws would take CPU time from the session that is measured.
        auto_refresh=not is_timed,
        transient=is_timed,
    )
    task = bar.add_task(label, total=None, time="")

    def update(done: float, total: float | None, description: str | None = None) -> None:
        time = format_minutes(bar.tasks[0].elapsed or 0.0)
        if total is not None and done < total:
            time = f"{format_minutes(total - done)} left"
        bar.update(task, completed=done, total=total, description=description, time=time)
        if is_timed:
            bar.refresh()

    with bar:
        yield update


@contextmanager
def show_progress(label: str, *, quiet: bool = False) -> Iterator[OnProgress | None]:
    """Show on standard error how far a session is; yields what `run_session` calls `progress`."""
    if quiet:
        yield None
    elif notes.file.isatty() and not (notes.no_color or notes.is_dumb_terminal):
        with show_bar(make_printable(label), is_timed=True) as update:

            def show(progress: Progress) -> None:
                description = make_printable(f"{label}: {progress.description}")
                update(progress.done_s, progress.of_s or None, description)

            yield show
    else:
        printed: set[str] = set()

        def print_phase(progress: Progress) -> None:
            if progress.doing not in printed:
                printed.add(progress.doing)
                notes.print(make_printable(f"{label}: {progress.doing}"), soft_wrap=True)

        yield print_phase


def make_printable(words: str) -> str:
    """Replace the characters that a terminal would act on, which names of users may hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in words)
