"""The options that the commands which measure a loader with a step share."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from netpipe.cli.console import as_html, as_json, folder
from netpipe.cli.progress_display import quiet_option

if TYPE_CHECKING:
    from netpipe.measuring.request import MeasureRequest


@dataclass(frozen=True)
class MeasureOptions:
    """The values of these options.

    Attributes:
        loader: The loader's target.
        step: The step's target; None without one.
        loop: The loop's target; None: the harness's own loop.
        accelerator: "auto", an emulated one, or a list of them.
        flops_per_step: FLOPs of a step; None: the step knows them.
        mfu: The fraction of its peak that an accelerator reaches.
        budget: Seconds to measure.
        batch_limit: Seconds without a batch after which a loader counts as hung.
        start_limit: Seconds until its first batch must be there.
        html: The page to write; None: no page.
        trace: The folder to keep a trace in; None: no trace.
        quiet: Whether to show no progress.
        as_json: Whether to print the JSON document.
    """

    loader: str
    step: str | None
    loop: str | None
    accelerator: str
    flops_per_step: float | None
    mfu: float
    budget: float
    batch_limit: float
    start_limit: float
    html: Path | None
    trace: Path | None
    quiet: bool
    as_json: bool

    def request(self, accelerator: str) -> "MeasureRequest":
        """Return the request of a session that measures.

        Raises:
            InputError: The page or the trace cannot be written.
            MisuseError: A value is outside its range.
        """
        from netpipe.measuring.request import MeasureRequest
        from netpipe.whole_file import refuse_unwritable, writable_folder

        if self.html is not None:
            refuse_unwritable(self.html, "--html")
        return MeasureRequest(
            accelerator=accelerator,
            budget_s=self.budget,
            batch_limit_s=self.batch_limit,
            start_limit_s=self.start_limit,
            flops_per_step=self.flops_per_step,
            mfu=self.mfu,
            trace=str(writable_folder(self.trace, "--trace")) if self.trace else "",
        )


def measure_options(
    budget_s: float, budget_means: str
) -> Callable[[Callable[[MeasureOptions], None]], Callable[..., None]]:
    """Give a command the options of a `MeasureOptions`.

    Args:
        budget_s: The default of --budget.
        budget_means: Its help.
    """

    def decorate(command: Callable[[MeasureOptions], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapped(**values: Any) -> None:
            command(MeasureOptions(**values))

        for option in reversed(_options(budget_s, budget_means)):
            wrapped = option(wrapped)
        return wrapped

    return decorate


def _options(budget_s: float, budget_means: str) -> list[Callable[..., Any]]:
    return [
        click.option("--loader", required=True, metavar="TARGET", help="Makes the loader."),
        click.option("--step", metavar="TARGET", help="Makes (state, step)."),
        click.option(
            "--loop", metavar="TARGET", help="Your training loop(batches, state, step)."
        ),
        click.option(
            "--accelerator", default="auto", show_default=True,
            help="auto, emulated:36ms, emulated:8xh100; @25GB/s adds a copy to the device.",
        ),
        click.option(
            "--flops-per-step", type=float,
            help="FLOPs of a step, for accelerators that are known by their peak.",
        ),
        click.option(
            "--mfu", type=float, default=0.4, show_default=True,
            help="The part of its peak that such an accelerator reaches.",
        ),
        click.option(
            "--budget", type=float, default=budget_s, show_default=True, help=budget_means
        ),
        click.option(
            "--batch-limit", type=float, default=10.0, show_default=True,
            help="A loader that gives no batch for so many seconds hangs.",
        ),
        click.option(
            "--start-limit", type=float, default=600.0, show_default=True,
            help="Seconds until its first batch must be there: indexes are built, workers start.",
        ),
        as_html,
        click.option(
            "--trace", type=folder, metavar="DIR",
            help="Keep a profiler's trace of some real steps in a folder, for ui.perfetto.dev.",
        ),
        quiet_option,
        as_json,
    ]  # fmt: skip
