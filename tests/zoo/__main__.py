"""Try pipelines in their tox environments, and write the table: `python -m tests.zoo [NAME...]`.

NAME is an environment; the default is all. `table` tries none. Each trial is appended to
trials.jsonl when it ends.
"""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from perf_tests.studies.records import read_records
from tests.zoo.catalogue import PIPELINES
from tests.zoo.trial import Trial

RESULTS: Final = Path(__file__).parent / "trials.jsonl"
_DOCUMENT: Final = Path(__file__).parent / "README.md"
_COLUMNS: Final = (
    "pipeline", "versions", "lint", "starved", "fed", "bottleneck", "gain",
)  # fmt: skip


def main() -> None:
    """Try the requested environments, and put the table into the document."""
    environments = dict.fromkeys(each.environment for each in PIPELINES.values())
    for environment in sys.argv[1:] or environments:
        if environment != "table":
            keep = ["--zoo-keep", str(RESULTS)]
            subprocess.run(["tox", "-e", f"zoo-{environment}", "--", *keep], check=False)
    trials = latest_trials()
    text = _DOCUMENT.read_text()
    table = next(block for block in text.split("\n\n") if block.startswith("| pipeline"))
    _DOCUMENT.write_text(text.replace(table, write_table(trials.values())))


def latest_trials() -> dict[str, Trial]:
    """Return the latest trial of each pipeline, a decided one if there is any."""
    trials = dict[str, Trial]()
    for trial in read_records(RESULTS, Trial):
        before = trials.get(trial.pipeline)
        if trial.is_decided or before is None or not before.is_decided:
            trials[trial.pipeline] = trial
    return trials


def write_table(trials: Iterable[Trial]) -> str:
    """Return a row for each trial, in the order of the catalogue."""
    order = list(PIPELINES)
    rows = [_row(trial) for trial in sorted(trials, key=lambda each: order.index(each.pipeline))]
    lines = [_COLUMNS, ["---"] * len(_COLUMNS), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _row(trial: Trial) -> list[str]:
    versions = ", ".join(f"{name} {number}" for name, number in trial.versions.items())
    lint = ", ".join(f"`{rule}`" for rule in trial.lint) or "-"
    gain = f"{trial.made_gain:.2f} x ({trial.change})" if trial.change else "nothing tried"
    bottleneck = f"{trial.stage}, {trial.resource}"
    return [f"`{trial.pipeline}`", versions, lint, trial.starved, trial.fed, bottleneck, gain]


if __name__ == "__main__":
    main()
