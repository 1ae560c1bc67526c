"""The job of a lint session."""

from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from typing import Any

from netpipe.clock import Clock
from netpipe.device.host import this_host
from netpipe.grain_access.reader import collect_datasets, find_held_datasets, make_loader
from netpipe.grain_access.source_lines import record_source_lines
from netpipe.grain_access.worker_start import make_unpermitted
from netpipe.jobs.progress import ProgressWriter
from netpipe.jobs.request import progress_file
from netpipe.jobs.targets import Factories
from netpipe.linting.experiments.proofs import prove
from netpipe.linting.experiments.trials import apply_trials, try_fixes
from netpipe.linting.lint_request import LintRequest
from netpipe.linting.linter import lint
from netpipe.linting.reads import find_reads, measure_batch, measure_reads


def lint_loader(request: LintRequest, factories: Factories, _: ExitStack) -> dict[str, Any]:
    """Lint the pipeline that a factory returns, and run the requested experiments.

    Returns:
        The `netpipe.lint/1` document under the key `lint`.
    """
    loader = factories.loader
    clock = Clock()
    progress = ProgressWriter(progress_file(request), clock)
    progress.enter_phase("building the pipeline")
    with record_source_lines() as recording:
        dataset, lacks_flags = make_unpermitted(partial(make_loader, loader))
    report_progress = partial(
        progress.enter_phase, of_s=(request.proves + request.tries) * request.budget_s
    )
    trials: list[dict[str, Any]] = []
    held = [] if collect_datasets(dataset) else [*find_held_datasets(dataset).values()]
    inner = held[0] if len(held) == 1 else dataset
    reads, silences = find_reads(loader, inner), request.silences
    if request.tries:
        reads = measure_reads(inner, clock) or reads
    reads = reads._replace(measure_batch=partial(measure_batch, loader))
    report = lint(
        dataset, request.intent, lacks_flags=lacks_flags, recording=recording,
        silences=silences, reads=reads,
    )  # fmt: skip
    if request.proves:
        report_progress("testing on elements where the structure does not decide")
        report = prove(loader, report, clock, request.budget_s)
    if request.tries:
        cores, budget_s = this_host().cores, request.budget_s
        found = try_fixes(loader, report, cores, clock, budget_s, report_progress=report_progress)
        report, trials = apply_trials(report, found), [asdict(trial) for trial in found]
    return {"lint": {**report.to_document(), "trials": trials}}
