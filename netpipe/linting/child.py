"""The job of a session that lints; `python -m netpipe.linting.child` runs it on a target.

Loader workers import this module again, so its top level imports nothing heavy.
"""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netpipe.jobs.targets import LoaderFactory
    from netpipe.linting.request import LintRequest


def lint_loader(request: "LintRequest", loader: "LoaderFactory") -> dict[str, Any]:
    """Lint the pipeline that a factory returns, and run the requested experiments.

    Returns:
        The `netpipe.lint/1` document, by its key.
    """
    # After the user's code, which may have to configure jax before grain imports it.
    from netpipe.clock import MonotonicClock
    from netpipe.device.host import this_host
    from netpipe.grain_access.source_lines import record_source_lines
    from netpipe.grain_access.worker_start import let_grain_start_workers
    from netpipe.jobs.progress import ProgressWriter
    from netpipe.jobs.result_files import progress_file
    from netpipe.linting.linter import lint
    from netpipe.linting.reads import find_reads, measure_batch, measure_reads

    let_grain_start_workers()
    clock = MonotonicClock()
    progress = ProgressWriter(progress_file(request), clock)
    progress.enter_phase("building the pipeline")
    with record_source_lines() as recording:
        dataset = loader()
    tell = partial(progress.enter_phase, of_s=(request.proves + request.tries) * request.budget_s)
    trials: list[dict[str, Any]] = []
    reads, silences = find_reads(loader, dataset), request.silences
    if request.tries:
        reads = measure_reads(dataset, clock) or reads
    reads = reads._replace(measure_batch=partial(measure_batch, loader))
    report = lint(dataset, request.intent, recording=recording, silences=silences, reads=reads)
    if request.proves:
        from netpipe.linting.experiments.proofs import prove

        tell("testing on elements what the structure does not decide")
        report = prove(loader, report, clock, request.budget_s)
    if request.tries:
        from netpipe.linting.experiments.trials import apply_trials, try_fixes

        found = try_fixes(loader, report, this_host().cores, clock, request.budget_s, tell=tell)
        report, trials = apply_trials(report, found), [asdict(trial) for trial in found]
    return {"lint": {**report.to_document(), "trials": trials}}


if __name__ == "__main__":
    from netpipe.linting.request import LintRequest
    from netpipe.measuring.targets import run_on_targets

    run_on_targets(
        LintRequest, lambda request, factories, _: lint_loader(request, factories.loader)
    )
