"""The files that a run writes: baselines, a JSON document, an HTML page and a step summary."""

import json
import os
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

import pytest
from pytest_benchmark.utils import get_commit_info

from netpipe.errors import InputError, NetpipeError
from netpipe.files.whole_file import write_whole
from netpipe.gate import baseline
from netpipe.gate.baseline_changes import FigureChange, Kind
from netpipe.gate.duets import Duet
from netpipe.gate.history import read_entries
from netpipe.gate.outcomes import Outcome
from netpipe.gate.waivers import Waiver
from netpipe.gate.work_baselines import (
    WORK_FOLDER,
    find_counted,
    load_work_baselines,
    save_work,
    work_key,
)
from netpipe.linting.linter import LintReport
from netpipe.plugin import other_plugins
from netpipe.plugin.fixtures import is_timed, requests
from netpipe.plugin.gate import Gate
from netpipe.plugin.gate_results import GateResult
from netpipe.plugin.github import add_step_summary
from netpipe.plugin.options import LOCAL
from netpipe.plugin.run import Run
from netpipe.results.fields import MayBeAbsent, Must, Text
from netpipe.results.measurement import Measurement
from netpipe.results.work_profile import WorkProfile
from netpipe.verdict.decision import judge
from netpipe.verdict.document import measurement_document

_UNKNOWN_DEVICE: Final = (
    "the step must name its device: give it an attribute `device`, such as 'cpu'"
)


def write_outputs(run: Run, session: pytest.Session) -> None:
    """Write all files that the options ask for; fail the run if one cannot be written.

    No option asks for GitHub's step summary, so a failure to write it does not fail the run.
    """
    options = run.options
    writers: list[Callable[[], None]] = []
    if options.record:
        writers.append(partial(_record_baselines, run, session))
    if options.json is not None:
        writers.append(partial(write_json, run, options.json))
    if options.report is not None:
        writers.append(partial(_write_page, run, session, options.report))
    for write in writers:
        try:
            write()
        except NetpipeError as error:
            run.gate.notes.append(str(error))
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
    step_summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if step_summary and (run.gate.selection.timed or run.gate.compares_nothing):
        try:
            add_step_summary(run, Path(step_summary))
        except InputError as error:
            run.gate.notes.append(f"warning: {error}")


def _record_baselines(run: Run, session: pytest.Session) -> None:
    """Write one baseline per device key from the tests that passed with good verdicts."""
    obstacles = _find_obstacles(run, session)
    root, name = run.options.recordings, run.options.record
    after = "commit this unchanged"
    if name == LOCAL:
        after = "run again; it serves on this machine while there is no other baseline"
    devices: dict[str, dict[str, tuple[Measurement, ...]]] = defaultdict(dict)
    work: dict[str, dict[str, WorkProfile]] = defaultdict(dict)
    for test, sessions in run.measurer.recorded.items():
        if test not in obstacles:
            devices[sessions[0].device.key][test] = sessions
    for test, profile in run.measurer.recorded_work.items():
        if test not in obstacles:
            work[work_key(profile.versions)][test] = profile
    savers: list[tuple[str, Callable[[], Path]]] = []
    for key, benchmarks in devices.items():
        folder = root / key
        document = other_plugins.benchmark_document(session.config, benchmarks)
        removed = _find_removed(_list_timed(folder), run, session, is_timed)
        stored = {**benchmarks, **dict.fromkeys(removed, ())}
        savers.append(("baseline", partial(baseline.save, folder, name, document, stored)))
    for key, profiles in work.items():
        save = partial(_save_work, run, session, root / WORK_FOLDER / key, profiles)
        savers.append(("baseline of work", save))
    written, refused = list[str](), list[str]()
    for kind, write in savers:
        # One unwritable folder must not prevent the other baselines from being saved.
        try:
            written.append(f"recorded {write()}")
        except InputError as error:
            refused.append(f"no {kind} was recorded: {error}")
    if not savers and not obstacles:
        refused.append("no baseline was recorded: no benchmark ran")
    refused += (f"not recorded: {test}: {why}" for test, why in obstacles.items())
    run.gate.notes += (f"{line}: look at the verdicts above, then {after}" for line in written)
    if root == run.options.local_baselines and written:
        write_whole(root.parent / ".gitignore", "*\n", "--netpipe-record")
    if refused:
        raise NetpipeError("\n".join(refused))


def _find_obstacles(run: Run, session: pytest.Session) -> dict[str, str]:
    """Return, for each test that cannot be recorded, the reason and what to do about it.

    Raises:
        NetpipeError: The run was interrupted, or it failed although no test failed.
    """
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    stats, status = reporter.stats if reporter else {}, session.exitstatus
    failed = [report.nodeid for kind in ("failed", "error") for report in stats.get(kind, ())]
    if status == pytest.ExitCode.INTERRUPTED:
        raise NetpipeError("no baseline was recorded: the run was interrupted")
    if status != pytest.ExitCode.OK and not failed:
        raise NetpipeError("no baseline was recorded: the run failed")
    timed = filter(run.gate.selection.timed.__contains__, failed)
    obstacles = dict.fromkeys(timed, "it failed; do what its message says, and record again")
    skipped = {report.nodeid for report in stats.get("skipped", ())}
    taken = {*run.measurer.recorded, *run.measurer.recorded_work}
    obstacles |= dict.fromkeys(sorted(skipped & taken), "it was skipped; do what its message says")
    for test, sessions in run.measurer.recorded.items():
        for measured in sessions:
            verdict = judge(measured)
            if measured.device.platform == "unknown":
                obstacles.setdefault(test, _UNKNOWN_DEVICE)
            elif not verdict.passes(measured):
                key, message = measured.device.key, verdict.message
                why = f"a session on {key} was {message}; next: {verdict.next}"
                obstacles.setdefault(test, why)
    return obstacles


def _find_removed(
    tests: Iterable[str], run: Run, session: pytest.Session, is_kind: Callable[[pytest.Item], bool]
) -> list[str]:
    """Return those of the recorded tests that are no longer tests of their kind."""
    kept = {item.nodeid for item in filter(is_kind, session.items)}
    return run.gate.selection.find_removed(tests, kept)


def _list_timed(folder: Path) -> Iterable[str]:
    with suppress(InputError):  # Saving reports the error and keeps the recording elsewhere.
        readable = [entry.baseline for entry in read_entries(folder) if entry.baseline]
        return baseline.find_holders(readable)
    return ()


def _save_work(
    run: Run, session: pytest.Session, folder: Path, profiles: Mapping[str, WorkProfile]
) -> Path:
    earlier = find_counted(load_work_baselines(folder))
    removed = _find_removed(earlier, run, session, partial(requests, fixture="netpipe_work"))
    # Without pytest-benchmark's plugin, its hook is missing too.
    hook = getattr(session.config.hook, "pytest_benchmark_generate_commit_info", None)
    commit = hook(config=session.config) if hook else get_commit_info()
    return save_work(folder, str(run.options.record), commit, profiles, removed)


def write_json(run: Run, path: Path) -> None:
    """Write the document of a run; raise an InputError if it cannot be written."""
    text = json.dumps(run_document(run), indent=1, allow_nan=False) + "\n"
    write_whole(path, text, "--netpipe-json")


def _write_page(run: Run, session: pytest.Session, path: Path) -> None:
    from netpipe.reporting.rendering import render_page  # Slow: it imports the plotting code.

    typed = shlex.join(["pytest", *map(str, session.config.invocation_params.args)])
    write_whole(path, render_page([run_document(run)], repeat=typed), "--netpipe-report")


class BaselineChange(TypedDict):
    """A baseline file that differs between the working tree and the commit."""

    change: Kind
    file: str  #: <device key>/NNNN_<name>.json.
    before: str | None  #: The file that it replaces; null for none.
    after: str | None  #: The file that will be compared with; null for none.
    differences: list[str]  #: Other differences: device, host, data, versions.
    #: Medians over sessions, by figure; null if either baseline is missing.
    figures: Mapping[str, FigureChange] | None


@dataclass(frozen=True, kw_only=True)
class ListedWaiver(Waiver):
    """A waiver in the working tree."""

    is_added: bool  #: Whether the commit of the baselines lacks this waiver.


class Accepted(TypedDict):
    """The accepted results that a run was compared with, and the changes to them."""

    commit: str | None  #: The commit of the baselines; null for the working tree.
    baseline_changes: list[BaselineChange]
    waivers: list[ListedWaiver]


class PrintedComparison(TypedDict):
    """A benchmark compared with a baseline or another version."""

    benchmark: str  #: The full name of the benchmark: path::test.
    #: The key of the device it was measured on; null for a count of work.
    device: NotRequired[str | None]
    #: The quantity that the benchmark measures.
    quantity: Literal["load_s_per_batch", "step_s", "train_s_per_step", "work"]
    against: str | None  #: The git ref that it was compared with; null for the baseline.
    metric: str  #: The metric that decided; empty without a baseline.
    outcome: Outcome
    #: Whether the outcome is NOT_COMPARED by design: the metric is never judged on this device.
    is_reported_only: NotRequired[bool]
    now: float
    #: The value to compare with: the median over the baseline's sessions, or its count of work.
    baseline: float | None
    #: Factor by which it is worse; above 1 is worse. For a share of the steps: 1 plus the
    #: difference. Null if the two cannot be compared.
    worse_ratio: float | None
    #: The change in words, if they say more than the factor; empty if not.
    shown_change: NotRequired[str]
    reason: Text
    #: The oldest comparable baseline, from which small steps are added up; null if none is older
    #: than the latest.
    oldest: NotRequired[str | None]
    waiver: Waiver | None  #: The waiver under which a regression does not fail; null for none.


@dataclass(frozen=True, kw_only=True)
class PrintedDuet(Duet):
    """One process of each version, started together and timed in slices."""

    quantity: str  #: The timed quantity, such as step_s.


class OtherVersion(TypedDict):
    """The version that was timed side by side with this one."""

    ref: str  #: The ref as the user gave it.
    commit: str
    duets: list[PrintedDuet]


@dataclass(frozen=True, kw_only=True)
class TestedWork(WorkProfile):
    """The counted work of a test's loader and step."""

    test: MayBeAbsent[str] = ""  #: The full name of the test.


class RunDocument(TypedDict):
    """The document of `--netpipe-json`: all measurements, findings and comparisons of a run."""

    schema: Literal["netpipe.run/1"]
    #: Every session, with its verdict.
    measurements: list[Annotated[Measurement, Must(required=["verdict"])]]
    lints: list[LintReport]
    work: NotRequired[list[TestedWork]]  #: The counted work of every loader and step.
    accepted: Accepted
    comparisons: list[PrintedComparison]
    against: OtherVersion | None  #: The other version; null if there is none.


def run_document(run: Run) -> dict[str, Any]:
    """Return the `netpipe.run/1` document of a run."""
    measurer, acceptance, against = run.measurer, run.gate.acceptance, run.measurer.against
    return {
        "schema": "netpipe.run/1",
        "measurements": [
            {**measurement_document(session, judge(session)), "test": measurer.tests[key]}
            for key, sessions in measurer.sessions.items()
            for session in sessions
        ],
        "lints": list(measurer.lints.values()),
        "work": [
            {**profile.to_document(), "test": test}
            for test, profile in measurer.recorded_work.items()
        ],
        "accepted": {
            "commit": acceptance.commit and acceptance.commit.sha,
            "baseline_changes": [change.to_document() for change in acceptance.changes],
            "waivers": [
                {**_waiver(waiver), "is_added": waiver in acceptance.added}
                for waiver in acceptance.waivers
            ],
        },
        "comparisons": [_comparison(run.gate, result) for result in run.gate.results],
        "against": against
        and {
            "ref": against.commit.ref,
            "commit": against.commit.sha,
            "duets": [
                {"quantity": quantity, **asdict(duet)}
                for (_, quantity), duets in against.duets.items()
                for duet in duets
            ],
        },
    }


def _waiver(waiver: Waiver) -> dict[str, Any]:
    return {**asdict(waiver), "expires": waiver.expires.isoformat()}


def _comparison(gate: Gate, result: GateResult) -> dict[str, Any]:
    comparison, against = result.comparison, gate.measurer.against
    return {
        "benchmark": result.benchmark,
        "device": result.device or None,
        "quantity": result.quantity,
        "against": against.commit.ref if against and result.against else None,
        "metric": comparison.metric,
        "outcome": comparison.outcome.value,
        "now": comparison.now,
        "baseline": comparison.then,
        "is_reported_only": comparison.is_reported_only,
        "worse_ratio": comparison.worse_ratio,
        "shown_change": comparison.shown_change,
        "reason": comparison.reason,
        "oldest": comparison.oldest or None,
        "waiver": result.waiver and _waiver(result.waiver),
    }
