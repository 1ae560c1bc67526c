"""One line on a terminal that is drawn anew whenever there is something to show."""

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
)
from rich.table import Column
from rich.text import Text

from netpipe.cli.progress_display import printable
from netpipe.results.units import format_minutes
from netpipe.session.progress import Progress as SessionProgress


class Bar:
    """What a session does, how much of its time is over and how much is left; gone at its end.

    Args:
        label: What it is about.
        console: Where it is drawn: a terminal.
    """

    def __init__(self, label: str, console: Console) -> None:
        self._label = label
        self._progress = Progress(
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
            ),
            BarColumn(bar_width=10),
            TaskProgressColumn(),
            _Time(),
            console=console,
            expand=True,  # so that a narrow terminal takes from the words, not from the time
            # A thread that draws would take from what is measured; to be told now and then is
            # enough.
            auto_refresh=False,
            transient=True,
        )
        self._task = self._progress.add_task(label, total=None)

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, progress: SessionProgress) -> None:
        """Show how far the session is."""
        words = ", ".join(one for one in (progress.doing, progress.detail) if one)
        self._progress.update(
            self._task,
            description=f"{self._label}: {printable(words)}",
            total=progress.of_s or None,
            completed=progress.done_s,
            refresh=True,
        )


class _Time(ProgressColumn):
    """The time that is left; the time that has passed while nobody knows, and once it is over."""

    def render(self, task: Task) -> Text:
        """Return it as minutes and seconds."""
        if not task.remaining:
            return Text(format_minutes(task.elapsed or 0.0))
        return Text(f"{format_minutes(task.remaining)} left")
