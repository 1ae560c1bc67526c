"""The job of a session that lints: a loader's graph is read and, where asked for, tried."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from netpipe.clock import MonotonicClock
from netpipe.device.host import this_host
from netpipe.grain_workers import let_grain_start_workers
from netpipe.linting.graph.source_lines import record_source_lines
from netpipe.linting.linter import LintReport, lint
from netpipe.linting.request import LintRequest
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.progress import ProgressWriter
from netpipe.session.result_files import progress_file

if TYPE_CHECKING:
    from netpipe.linting.experiments.trials import Trial


def lint_loader(request: LintRequest, loader: LoaderFactory) -> dict[str, object]:
    """Return the `netpipe.lint/1` document of the loader that a factory makes.

    Args:
        request: The intent, the silences, and whether to prove and to try.
        loader: Makes the pipeline; called once, and again for everything that is proven or tried.

    Raises:
        MisuseError: The intent or a silence is not one of those that there are.
    """
    let_grain_start_workers()
    teller = ProgressWriter(progress_file(request), MonotonicClock())
    teller.enter_phase("building the pipeline")
    with record_source_lines() as recording:
        dataset = loader()
    report = lint(dataset, request.intent, recording=recording, silences=request.silences)
    likely_s = (request.proves + request.tries) * request.budget_s
    if request.proves:
        teller.enter_phase("trying on elements what the structure leaves open", likely_s)
        report = _proven(request, loader, report)
    trials: tuple[Trial, ...] = ()
    if request.tries:
        report, trials = _tried(request, loader, report, partial(teller.enter_phase, of_s=likely_s))
    return {**report.to_document(), "trials": [one.to_document() for one in trials]}


def _proven(request: LintRequest, loader: LoaderFactory, report: LintReport) -> LintReport:
    from netpipe.linting.experiments.proofs import prove

    return prove(loader, report, MonotonicClock(), request.budget_s)


def _tried(
    request: LintRequest,
    loader: LoaderFactory,
    report: LintReport,
    tell: Callable[[str], object],
) -> "tuple[LintReport, tuple[Trial, ...]]":
    from netpipe.linting.experiments.trials import apply_trials, try_fixes

    cores, clock = this_host().cores, MonotonicClock()
    trials = try_fixes(loader, report, cores, clock, request.budget_s, tell=tell)
    return apply_trials(report, trials), trials
