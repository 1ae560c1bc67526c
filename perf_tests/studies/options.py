"""The option and the signal handler that the commands of several studies need."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from netpipe.signals import signals_as_errors

if TYPE_CHECKING:
    from perf_tests.studies.faults.cases import Case


def exit_on_signals() -> None:
    """Make a signal that ends this command also end its child processes."""
    click.get_current_context().with_resource(signals_as_errors())


def _select_cases(_: click.Context, __: click.Parameter, names: Sequence[str]) -> "Sequence[Case]":
    # The catalogue imports jax, which must not run beside the other studies' measurements.
    from perf_tests.studies.faults.catalogue import select_cases

    try:
        return select_cases(names)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


only_cases = click.option(
    "--only", "cases", multiple=True, metavar="GLOB", callback=_select_cases,
    help="Only cases whose NAME or FAMILY/NAME matches. May be repeated.",
)  # fmt: skip
