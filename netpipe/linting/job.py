"""The job of a session that lints: build the loader, lint it, and run the requested experiments."""

from dataclasses import asdict
from functools import partial

from netpipe.clock import MonotonicClock
from netpipe.device.host import this_host
from netpipe.grain_workers import let_grain_start_workers
from netpipe.linting.graph.source_lines import record_source_lines
from netpipe.linting.linter import LintReport, lint
from netpipe.linting.request import LintRequest
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.progress import ProgressWriter
from netpipe.session.result_files import progress_file


def lint_loader(request: LintRequest, loader: LoaderFactory) -> dict[str, object]:
    """Return the `netpipe.lint/1` document of the pipeline that a factory returns."""
    let_grain_start_workers()
    progress = ProgressWriter(progress_file(request), MonotonicClock())
    progress.enter_phase("building the pipeline")
    with record_source_lines() as recording:
        dataset = loader()
    report = lint(dataset, request.intent, recording=recording, silences=request.silences)
    return _run_experiments(request, loader, report, progress)


def _run_experiments(
    request: LintRequest, loader: LoaderFactory, report: LintReport, progress: ProgressWriter
) -> dict[str, object]:
    clock = MonotonicClock()
    tell = partial(progress.enter_phase, of_s=(request.proves + request.tries) * request.budget_s)
    trials: list[dict[str, object]] = []
    if request.proves:
        from netpipe.linting.experiments.proofs import prove

        tell("testing on elements what the structure does not decide")
        report = prove(loader, report, clock, request.budget_s)
    if request.tries:
        from netpipe.linting.experiments.trials import apply_trials, try_fixes

        cores = this_host().cores
        found = try_fixes(loader, report, cores, clock, request.budget_s, tell=tell)
        report, trials = apply_trials(report, found), [asdict(trial) for trial in found]
    return {**report.to_document(), "trials": trials}
