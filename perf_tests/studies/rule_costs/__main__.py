"""`python -m perf_tests.studies.rule_costs`: measure what breaking each rule costs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Final

import click
from rich.console import Console

from netpipe.device.host import this_host
from netpipe.errors import NetpipeError
from netpipe.files.whole_file import write_whole
from netpipe.git import git
from perf_tests.studies.options import exit_on_signals
from perf_tests.studies.rule_costs.catalogue import CATALOGUE
from perf_tests.studies.rule_costs.costs import Figure, RuleCosts, read_costs
from perf_tests.studies.rule_costs.document import ROOT, RULES_DOCUMENT, replace_costs
from perf_tests.studies.rule_costs.trials import make_example_files, measure_rule

COSTS_FILE: Final = Path(__file__).with_name("costs.json")
PACKAGED_COSTS: Final = ROOT / "netpipe" / "linting" / "rules" / "costs.json"
_PACKAGES: Final = ("grain", "jax", "numpy")
_notes = Console(stderr=True, highlight=False, soft_wrap=True)


def _select_rules(_: click.Context, __: click.Parameter, patterns: Sequence[str]) -> list[str]:
    for pattern in patterns:
        if not any(fnmatch(rule, pattern) for rule in CATALOGUE):
            known = ", ".join(CATALOGUE)
            raise click.BadParameter(f"must match a rule; found {pattern!r}, known are {known}")
    return [
        rule for rule in CATALOGUE if any(fnmatch(rule, pattern) for pattern in patterns or "*")
    ]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--only", "rules", multiple=True, metavar="GLOB", callback=_select_rules,
    help="Only rules whose names match. May be repeated.",
)  # fmt: skip
@click.option(
    "--record", is_flag=True,
    help="Measure only what costs.json lacks, and write the costs into it, into the package and"
    " into docs/rules.md.",
)  # fmt: skip
def main(rules: Sequence[str], record: bool) -> None:
    """Measure what breaking each rule costs, on the examples of docs/rules.md.

    The wrong example and the right one run in turns, each time in a fresh process. The machine
    should be otherwise idle; it takes about six minutes on two cores.
    """
    exit_on_signals()
    try:
        known = read_costs(COSTS_FILE) if record and COSTS_FILE.exists() else None
        figures = dict(_measure(rules, known))
        if record:
            if figures:
                _record(figures, known)
            _write_costs()
    except NetpipeError as error:
        raise click.ClickException(str(error)) from error


def _measure(
    rules: Sequence[str], known: RuleCosts | None
) -> Iterator[tuple[str, tuple[Figure, ...]]]:
    with make_example_files() as folder:
        for rule in rules:
            with _notes.status(rule):
                figures = measure_rule(rule, folder, known)
            for figure in figures:
                click.echo(f"{rule}: {figure}{_spread(figure)}")
            if figures:
                yield rule, figures


def _spread(figure: Figure) -> str:
    """Return the range of the ratios over the rounds."""
    ratios = [wrong / right for wrong, right in figure.rounds if right]
    if len(ratios) < 2:
        return ""
    return f" (wrong / right {min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds)"


def _record(figures: Mapping[str, tuple[Figure, ...]], known: RuleCosts | None) -> None:
    """Write figures with the machine, the time and the versions of the run, beside known ones."""
    costs = RuleCosts(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=git(ROOT, "describe", "--always", "--dirty", "--abbrev=12"),
        command="python -m perf_tests.studies.rule_costs --record",
        host=this_host(),
        versions={"python": python_version(), **{name: version(name) for name in _PACKAGES}},
        rules=figures,
    )
    if known:
        costs = known.add(costs)
    text = json.dumps(asdict(costs), indent=1, allow_nan=False) + "\n"
    write_whole(COSTS_FILE, text, "--record")


def _write_costs() -> None:
    """Write the recorded figures as sentences into the package and the document."""
    costs = read_costs(COSTS_FILE)
    described = {rule: costs.describe(rule) for rule in costs.rules}
    write_whole(PACKAGED_COSTS, json.dumps(described, indent=1) + "\n", "--record")
    text = RULES_DOCUMENT.read_text(encoding="utf-8")
    text = replace_costs(text, costs.describe_figures, costs.origin)
    write_whole(RULES_DOCUMENT, text, "--record")


if __name__ == "__main__":
    main()
