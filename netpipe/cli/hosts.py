"""`netpipe hosts`: one verdict from the measurements of several hosts."""

import sys
from collections import defaultdict
from pathlib import Path

import click

from netpipe.cli.console import (
    FAILED,
    FINE,
    INCONCLUSIVE,
    bold_first,
    json_option,
    output,
    path_type,
    print_json,
)
from netpipe.errors import InputError
from netpipe.reporting.measurement_table import verdict_table
from netpipe.results.measurement import Measurement, parse_measurement
from netpipe.verdict.document import subject_label
from netpipe.verdict.hosts import HostsReport, HostsVerdict, judge_hosts
from netpipe.verdict.kinds import VerdictKind


@click.command(epilog="\b\nExample:\n  netpipe hosts host-0.json host-1.json")
@click.argument("results", nargs=-1, required=True, metavar="RESULT...", type=path_type)
@json_option
def hosts(results: tuple[Path, ...], as_json: bool) -> None:
    """Judge hosts that train together, from one measurement on each host.

    RESULT is a host's JSON document from measure or --netpipe-json; the file's name stands for the
    host. Each step waits for the slowest host, so one host that waits fails all.
    """
    from netpipe.reporting.rendering import read_document

    if len(set(results)) < max(2, len(results)):
        constraint = "be one file for each of two hosts or more"
        raise InputError("netpipe hosts", "RESULT", constraint, " ".join(map(str, results)))
    by_subject: dict[str, dict[str, list[Measurement]]] = defaultdict(lambda: defaultdict(list))
    for path in results:
        document = read_document(path)
        for printed in document.get("measurements") or [document]:
            measurement = parse_measurement(printed, path)
            subject = f"{measurement.device.key} {printed.get('test', '')}".strip()
            by_subject[subject][str(path)].append(measurement)
    for subject, measured in by_subject.items():
        if missing := [path for path in map(str, results) if path not in measured]:
            found = ", ".join(name for name in by_subject if missing[0] in by_subject[name])
            constraint = f"be {subject}, as another host's"
            raise InputError(missing[0], "device", constraint, found or "none")
    verdicts = {subject: judge_hosts(measured) for subject, measured in by_subject.items()}
    if as_json:
        print_json(HostsReport(verdicts).to_document())
    else:
        for subject, verdict in verdicts.items():
            rows = [(host, each) for host, found in by_subject[subject].items() for each in found]
            output.print(verdict_table([each for _, each in rows], [host for host, _ in rows]))
            first, *others = verdict.sentences()
            label = subject_label(rows[0][1]) + subject.removeprefix(rows[0][1].device.key)
            output.print(bold_first(label, f": {first}"))
            for line in others:
                output.print(f"  {line}")
    codes = list(map(_exit_code, verdicts.values()))
    sys.exit(FAILED if FAILED in codes else max(codes))


def _exit_code(found: HostsVerdict) -> int:
    if found.passes:
        return FINE
    is_open = found.verdict.kind == VerdictKind.INCONCLUSIVE and not found.ends_apart
    return INCONCLUSIVE if is_open else FAILED
