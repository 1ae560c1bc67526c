"""`netpipe hosts`: one verdict from the measurements of several hosts."""

import sys
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Final, NoReturn

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
from netpipe.verdict.kinds import Verdict, VerdictKind

_MIN_BARS: Final = 6


@click.command(epilog="\b\nExample:\n  netpipe hosts host-0.json host-1.json")
@click.argument("results", nargs=-1, required=True, metavar="RESULT...", type=path_type)
@json_option
def hosts(results: tuple[Path, ...], as_json: bool) -> None:
    """Judge hosts that train together, from a measurement or a log of each host.

    RESULT is a host's JSON document from measure or --netpipe-json, or its log of netpipe.watch;
    the file's name stands for the host. Each step waits for the slowest host, so one host that
    waits fails all.
    """
    from netpipe.reporting.rendering import read_document
    from netpipe.watching.logs import is_log

    if len(set(results)) < max(2, len(results)):
        constraint = "be one file for each of two hosts or more"
        raise InputError("netpipe hosts", "RESULT", constraint, " ".join(map(str, results)))
    if any(map(is_log, results)):
        _judge_logs(results, as_json=as_json)
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


def _judge_logs(paths: Sequence[Path], *, as_json: bool) -> NoReturn:
    from netpipe.reporting.training_table import training_table
    from netpipe.watching.logs import Log, read_merged
    from netpipe.watching.processes import judge_together, merge_worse, sort_by_waiting

    windows = {str(path): read_merged(path, _MIN_BARS) for path in paths}
    firsts = {path: next(Log(Path(path)).read()) for path in windows}
    for path, other in combinations(firsts, 2):
        if firsts[path] == firsts[other]:
            constraint = f"be written on that host, not copied from {path}"
            raise InputError(other, "content", constraint, "the same", "Give each process its log")
    processes = sort_by_waiting({path: merge_worse(each) for path, each in windows.items()})
    judged, (slowest, *_) = judge_together(processes), processes
    verdict = Verdict(judged.kind, judged.message, (), judged.next)
    ends, passes = dict.fromkeys(windows), not judged.severity
    found = HostsVerdict(slowest, None, verdict, ends, ends_apart=False, passes=passes)
    if as_json:
        print_json(HostsReport({"training": found}).to_document())
    else:
        output.print(training_table(processes, windows))
        output.print(bold_first(judged.kind, f": {found.sentences()[0]}"))
    sys.exit(_exit_code(found))


def _exit_code(found: HostsVerdict) -> int:
    if found.passes:
        return FINE
    is_open = found.verdict.kind == VerdictKind.INCONCLUSIVE and not found.ends_apart
    return INCONCLUSIVE if is_open else FAILED
