"""The `netpipe` command. Its subcommands import slow modules only when they run."""

import click

import netpipe
from netpipe.cli.ab import ab
from netpipe.cli.baseline import baseline, devices, doctor
from netpipe.cli.console import ErrorReportingGroup
from netpipe.cli.data import generate, inspect, prepare
from netpipe.cli.diagnose import diagnose
from netpipe.cli.history import history
from netpipe.cli.hosts import hosts
from netpipe.cli.init import init
from netpipe.cli.judge import judge
from netpipe.cli.lint import lint
from netpipe.cli.measure import measure
from netpipe.cli.report import report
from netpipe.cli.throughput import throughput
from netpipe.cli.watch import watch
from netpipe.cli.work import resume, work
from netpipe.signals import signals_as_errors


@click.group(
    cls=ErrorReportingGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExample:\n  netpipe init",
)
@click.version_option(netpipe.__version__, prog_name="netpipe")
def main() -> None:
    """Find out whether training waits for its data, and why."""
    # With this, a signal also ends child processes and removes unfinished files.
    click.get_current_context().with_resource(signals_as_errors())


for _command in (
    init, generate, prepare, inspect, throughput, measure, diagnose, lint, work, resume,
    watch, hosts, report, history, devices, doctor, baseline, ab, judge,
):  # fmt: skip
    main.add_command(_command)
