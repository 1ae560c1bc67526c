"""`python -m perf_tests.studies.gpu STAGE --out DIR`: a stage on this machine's GPU, unattended."""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import click

from netpipe.clock import Clock
from netpipe.device.detection import find_device
from netpipe.device.host import this_host
from netpipe.errors import NetpipeError
from perf_tests.studies.gpu.running import DONE, Outcome, pack, run_command, run_steps
from perf_tests.studies.gpu.stages import QUICK, STAGE_S, Settings, make_stage
from perf_tests.studies.options import exit_on_signals

_VERDICTS: Final = (0, 1, 3)  # netpipe's exit codes: fine, a verdict failed, inconclusive


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("stage", type=click.IntRange(1, 3))
@click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path),
    help="The folder of all results; finished steps in it are not repeated.",
)  # fmt: skip
@click.option(
    "--archive", type=click.Path(dir_okay=False, path_type=Path),
    help="Also pack the folder into this .tar.gz, again after each step.",
)  # fmt: skip
@click.option("--only", multiple=True, help="Only this step. May be repeated.")
@click.option("--device", help="The device's key, or cpu; detected if omitted.")
@click.option(
    "--limit-s", type=click.FloatRange(min=60), default=STAGE_S,
    show_default=True, help="Seconds of the stage; the limits of its steps grow with it.",
)  # fmt: skip
@click.option(
    "--quick", is_flag=True,
    help="A rehearsal: measure next to nothing, and accept any verdict.",
)  # fmt: skip
def main(
    stage: int, out: Path, archive: Path | None, only: tuple[str, ...], device: str | None,
    limit_s: float, quick: bool,
) -> None:  # fmt: skip
    """Run a stage: 1 checks everything, 2 records a baseline, 3 plants faults.

    The exit code is 0 if every step is done, 1 if one failed or had no time left. In a rehearsal
    it is 0 if every command ran to its end.
    """
    exit_on_signals()
    clock = Clock()
    ends_s = clock() + limit_s
    try:
        key = device or find_device(60.0).key
    except NetpipeError as error:
        raise click.ClickException(str(error)) from error
    settings = QUICK if quick else Settings()
    scale = limit_s / STAGE_S
    steps = [
        replace(step, limit_s=scale * step.limit_s)
        for step in make_stage(stage, key, this_host().cores, out.resolve(), settings)
    ]
    names = {step.name for step in steps}
    if unknown := {*only} - names:
        found = ", ".join(sorted(unknown))
        raise click.BadParameter(f"--only must be one of {', '.join(sorted(names))}; found {found}")
    steps = [step for step in steps if step.name in (only or names)]
    run = partial(run_command, platforms="cpu" if key.startswith("cpu") else "")
    outcomes = []
    for outcome in run_steps(steps, out.resolve(), ends_s=ends_s, run=run, clock=clock):
        outcomes.append(outcome)
        click.echo(format_outcome(outcome))
        if archive:
            pack(out, archive)
    done = sum(outcome.outcome == DONE for outcome in outcomes)
    click.echo(f"stage {stage} on {key}: {done} of {len(outcomes)} steps done")
    ran = sum(outcome.exit_code in _VERDICTS for outcome in outcomes)
    sys.exit(0 if (ran if quick else done) == len(outcomes) else 1)


def format_outcome(outcome: Outcome) -> str:
    """Return a line about a step: `tests: failed after 61 s: exit code 1`."""
    reason = f": {outcome.why}" if outcome.why else ""
    return f"{outcome.step}: {outcome.outcome} after {outcome.elapsed_s:g} s{reason}"


if __name__ == "__main__":
    main()
