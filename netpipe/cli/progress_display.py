"""Progress on standard error: a bar on a terminal, else a line for each phase of a session."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from rich.console import Console

from netpipe.cli.console import notes
from netpipe.jobs.progress import OnProgress, Progress
from netpipe.results.units import format_minutes

_LINE_EVERY_S: Final = 30.0


@contextmanager
def show_bar(label: str, *, is_session: bool = False) -> Iterator[Callable[..., None]]:
    """Show a bar with a description, the fraction that is done, and the elapsed time.

    For a session, show the time left if it is known, and remove the bar at the end.

    Yields:
        A function that takes the amount done, the total, and the description if it changed.
    """
    from rich import progress
    from rich.table import Column

    # On a narrow terminal, the description is cut off, not the time.
    column = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    left = progress.TextColumn("{task.fields[time]}")
    bar = progress.Progress(
        progress.TextColumn("{task.description}", markup=False, table_column=column),
        progress.BarColumn(bar_width=10),
        progress.TaskProgressColumn(),
        left if is_session else progress.TimeElapsedColumn(),
        console=notes,
        expand=True,
        # A drawing thread would take CPU time from the measured session.
        auto_refresh=not is_session,
        transient=is_session,
    )
    task = bar.add_task(label, total=None, time="")

    def update(done: float, total: float, description: str = label) -> None:
        time = format_minutes(bar.tasks[0].elapsed or 0.0)
        if done < total:
            time = f"{format_minutes(total - done)} left"
        bar.update(task, completed=done, total=total or None, description=description, time=time)
        if is_session:
            bar.refresh()

    with bar:
        yield update


@contextmanager
def show_rows(label: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show the phase, its rows per second, and the time left.

    Without a terminal, print a line when a phase starts, and then at most one every 30 s.

    Yields:
        A function that takes the number of rows done, the total, and the phase.
    """
    begun: dict[str, tuple[float, int]] = {}
    next_line_s = 0.0

    def describe(done: int, total: int, phase: str) -> str:
        since_s, first = begun.setdefault(phase, (monotonic(), done))
        if done <= first:
            return f"{label}: {phase}"
        rows_per_s = (done - first) / max(monotonic() - since_s, 1e-3)
        left = format_minutes((total - done) / rows_per_s)
        return f"{label}: {phase}, {rows_per_s:,.0f} rows/s, {left} left"

    def print_line(done: int, total: int, phase: str) -> None:
        nonlocal next_line_s
        if phase not in begun or monotonic() > next_line_s:
            next_line_s = monotonic() + _LINE_EVERY_S
            notes.print(describe(done, total, phase), soft_wrap=True)

    if can_draw(notes):
        with show_bar(label) as draw:
            yield lambda *now: draw(*now[:2], describe(*now))
    else:
        yield print_line


def can_draw(console: Console) -> bool:
    """Return whether a console can redraw lines."""
    return console.file.isatty() and not (console.no_color or console.is_dumb_terminal)


@contextmanager
def show_progress(label: str) -> Iterator[OnProgress | None]:
    """Show the progress of a session on standard error; yield the callback for it."""
    if notes.quiet:
        yield None
    elif can_draw(notes):
        with show_bar(label, is_session=True) as draw:
            yield lambda now: draw(now.done_s, now.of_s, f"{label}: {now.description}")
    else:
        printed: set[str] = set()

        def print_phase(progress: Progress) -> None:
            if progress.doing not in printed:
                printed.add(progress.doing)
                notes.print(f"{label}: {progress.doing}", soft_wrap=True)

        yield print_phase
