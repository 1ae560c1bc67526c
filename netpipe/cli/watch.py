"""`netpipe watch`: show training runs that write the logs of `netpipe.watch`."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Group, RenderableType
from rich.text import Text

from netpipe.cli.console import FAILED, FINE, INCONCLUSIVE, bold_first, output, path_type
from netpipe.cli.progress_display import can_draw

if TYPE_CHECKING:
    from netpipe.watching.logs import Logs
    from netpipe.watching.window import Judged, Window

_POLL_S: Final = 1.0


@click.command(epilog="\b\nExample:\n  netpipe watch run.jsonl")
@click.argument("path", metavar="FILE|FOLDER", type=path_type)
@click.option("--once", is_flag=True, help="Print the table once, and exit.")
def watch(path: Path, *, once: bool) -> None:
    """Follow a training run that netpipe.watch logs, and say why it waits.

    FILE is the log of one process. FOLDER holds a log (*.jsonl) for each process of a training run;
    the one whose loader makes the others wait is named. Ends with Ctrl-C, or with the run if it
    runs on this host.
    """
    from netpipe.watching.logs import Logs

    logs = Logs(path)
    with suppress(KeyboardInterrupt):
        if once:
            output.print(_render(logs))
        elif can_draw(output) and not os.environ.get("CI"):
            _draw(logs)
        else:
            _print_lines(logs)
    sys.exit((FINE, INCONCLUSIVE, FAILED)[_judge(logs).severity])


def _follow(logs: "Logs") -> Iterator[list[tuple[str, "Window"]]]:
    """Yield the latest windows, and each second the new ones, until the run ends."""
    yield [(name, windows[-1]) for name, windows in logs.windows.items()]
    while len(logs.find_ended()) < len(logs.windows):
        time.sleep(_POLL_S)
        yield logs.read()


def _draw(logs: "Logs") -> None:
    from rich.live import Live

    with Live(console=output, auto_refresh=False) as live:
        for _ in _follow(logs):
            live.update(_render(logs), refresh=True)


def _render(logs: "Logs") -> RenderableType:
    from netpipe.reporting.training_table import growth_lines, training_table
    from netpipe.watching.processes import merge_recent

    recent, ended = merge_recent(logs.windows), logs.find_ended()
    table = training_table(recent, logs.windows, ended, time.time())
    return Group(_format_verdict(_judge(logs)), "", table, *growth_lines(logs.windows).values())


def _print_lines(logs: "Logs") -> None:
    from netpipe.reporting.training_table import growth_lines, window_line

    kind, told = None, set[str]()
    for new in _follow(logs):
        for name, window in new:
            output.print(window_line(name, window), soft_wrap=True)
        judged = _judge(logs)
        if judged.kind != kind:
            kind = judged.kind
            output.print(_format_verdict(judged), soft_wrap=True)
        for name, text in growth_lines(logs.windows).items():
            if name not in told:
                output.print(text, soft_wrap=True)
                told.add(name)


def _judge(logs: "Logs") -> "Judged":
    """Return the verdict on the processes, without those that fell silent before the others."""
    from netpipe.watching.processes import judge_together, merge_recent

    recent = merge_recent(logs.windows)
    latest_s = max(each.ended_s for each in recent.values())
    return judge_together({n: each for n, each in recent.items() if not each.is_silent(latest_s)})


def _format_verdict(judged: "Judged") -> Text:
    advice = f"; {judged.next}" if judged.severity else ""
    return bold_first(judged.kind, f": {judged.message}{advice}")
