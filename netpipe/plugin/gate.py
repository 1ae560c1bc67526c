"""The gate of a run: comparisons with baselines and another version, and missing benchmarks."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from netpipe.files.paths import exists
from netpipe.gate import baseline
from netpipe.gate.acceptance import Acceptance
from netpipe.gate.baseline import Baseline
from netpipe.gate.comparison import BaselineSessions, compare, compare_until_decided
from netpipe.gate.outcomes import NO_WORSE, UNJUDGED, Comparison
from netpipe.gate.waivers import Waiver, apply_waivers
from netpipe.gate.work_baselines import (
    WORK_FOLDER,
    WorkBaseline,
    compare_with_baselines,
    describe_versions,
    find_counted,
    load_nearest,
    load_work_baselines,
    work_key,
)
from netpipe.gate.work_comparison import compare_in_turns
from netpipe.plugin.against import Against, dismiss_machine_alarm
from netpipe.plugin.gate_results import WORK, GateResult, gated_names
from netpipe.plugin.measurer import Measurer
from netpipe.plugin.session_nodes import Subject
from netpipe.results.measurement import Host, Measurement


@dataclass
class Selection:
    """The tests that a run selects.

    Attributes:
        root: The root folder of the tests' ids.
        covers: Returns whether the run would have found a test with a given id.
        selected: The ids of the tests that run.
        timed: The ids of those that need a session.
        has_benchmarks: Whether any collected test would be compared, selected or not.
        is_partial: Whether pytest does not even collect some tests, as with --lf.
    """

    root: Path
    covers: Callable[[str], bool]
    is_partial: bool = False
    selected: set[str] = field(default_factory=set)
    timed: set[str] = field(default_factory=set)
    deselected: set[str] = field(default_factory=set)
    has_benchmarks: bool = False

    def find_removed(self, tests: Iterable[str], kept: Collection[str]) -> list[str]:
        """Return the tests that no longer exist, apart from the `kept` and the deselected ones.

        A test that this run did not collect, for instance from an ignored file, may still exist.
        """
        if self.is_partial:
            return []
        files = {_file_of(test) for test in self.selected | self.deselected}
        return [
            test
            for test in filter(self.covers, tests)
            if test not in kept
            and test not in self.deselected
            and (_file_of(test) in files or not exists(self.root / _file_of(test)))
        ]


def _file_of(test: str) -> str:
    return test.partition("::")[0]


@dataclass
class Gate:
    """Compares the measurements of a measurer, and keeps the results.

    Attributes:
        notes: Additional lines for the summary.
    """

    measurer: Measurer
    selection: Selection
    acceptance: Acceptance = field(default_factory=Acceptance)
    results: list[GateResult] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _baselines: dict[str, tuple[Baseline, ...]] = field(default_factory=dict)
    _work_baselines: dict[str, tuple[WorkBaseline, ...]] = field(default_factory=dict)

    @property
    def compares(self) -> bool:
        """Whether results are compared at all."""
        return self.measurer.compares or bool(self.measurer.options.against)

    @property
    def compares_nothing(self) -> bool:
        """Whether something was to be compared but nothing was, for whatever reason.

        A metric that was not judged does not count as compared if a missing baseline fails the run,
        or if the other version has any netpipe tests.
        """
        measurer = self.measurer
        if not self.compares:
            return False
        fails = measurer.options.fail_when_missing
        if self.results:
            judged, unjudged = set[bool](), set[bool]()
            for result in self.results:
                is_judged = result.comparison.outcome not in UNJUDGED
                (judged if is_judged else unjudged).add(result.quantity == WORK)
            # Counts of work cannot stand in for times, nor times for counts.
            fails |= measurer.against is not None and not measurer.against.has_no_tests
            return fails and not unjudged <= judged
        has_measured = measurer.sessions or measurer.lints or measurer.resumes
        is_unmeasured = bool(self.selection.timed or fails) and not has_measured
        return is_unmeasured or self.selection.has_benchmarks or bool(self._list_unproduced())

    def decide(self, benchmark: str, quantity: str, subject: Subject) -> list[GateResult]:
        """Compare a benchmark with the other version and the baseline.

        Returns the judged results. If none was judged, returns all results of the baseline, or of
        the duets if this run does not use baselines.
        """
        against, against_ref = self.measurer.against, list[GateResult]()
        if against is not None:
            against_ref = self._compare_duets(against, benchmark, quantity, subject)
        stored = []
        if self.measurer.compares:
            stored = self._compare_stored(benchmark, quantity, subject)
        if against is not None and stored:
            dismiss = partial(
                dismiss_machine_alarm,
                duets=against_ref,
                commit=against.commit.sha,
                baselines=self.baselines_of(stored[0].device),
            )
            stored = list(map(dismiss, stored))
        return self._keep_results(against_ref, stored)

    def decide_work(self, test: str, subject: Subject) -> list[GateResult]:
        """Compare the work of a subject in the same way as `decide` compares its times."""
        now, against = self.measurer.count_work(test, subject), self.measurer.against
        against_ref, stored = list[GateResult](), list[GateResult]()
        if against is not None:
            request = self.measurer.work_request(subject)
            count_now = partial(self.measurer.jobs.count_work, subject.command, request)
            count_then: Callable[..., Any] = partial(against.count_work, subject.command, request)
            then = self.measurer.raise_again((subject.full_key, "work against"), count_then)
            label = against.commit.label
            compared: Sequence[Comparison] = ()
            if then is not None:
                now, compared = compare_in_turns(now, then, count_now, count_then)
            compared = compared or [Comparison.without_baseline(f"{label} lacks or skips {test}")]
            against_ref = self._make_results(test, WORK, compared, None, label)
        if self.measurer.compares:
            baselines = self.work_baselines_of(now.versions)
            self._note_versions(now.versions, baselines)
            compared = compare_with_baselines(test, now, baselines)
            missing = f"there is no baseline of work for {work_key(now.versions)}"
            if baselines:
                missing = f"{baselines[-1].name} has no such test"
            compared = compared or [Comparison.without_baseline(missing)]
            stored = self._make_results(test, WORK, compared, None)
        return self._keep_results(against_ref, stored)

    def baselines_of(self, key: str) -> tuple[Baseline, ...]:
        """Return all baselines of a device key, the latest last.

        Those for this machine only serve if there are no others and a missing one fails no run.
        """
        if key not in self._baselines:
            found = baseline.load_all(self.acceptance.baselines / key)
            if not found and self.local_baselines is not None:
                found = baseline.load_all(self.local_baselines / key)
                self._note_local(found)
            self._baselines[key] = found
        return self._baselines[key]

    @property
    def local_baselines(self) -> Path | None:
        """The folder of this machine's own baselines; None if they may not serve."""
        options = self.measurer.options
        return None if options.fail_when_missing else options.local_baselines

    def _note_local(self, found: Sequence[Baseline | WorkBaseline]) -> None:
        for each in found[-1:]:
            self._note_once(
                f"{each.name}, recorded on {each.recorded[:10]}, is a baseline of this machine "
                "only, which CI does not read"
            )

    def lost_benchmarks(self) -> list[str]:
        """Return the benchmarks that are in the baselines in use but that no test produced."""
        return [] if self.selection.is_partial else self._list_unproduced()

    def _list_unproduced(self) -> list[str]:
        stored = set().union(*map(baseline.find_holders, self._baselines.values()))
        counted = set().union(
            *(
                find_counted(held)
                for key, held in self._work_baselines.items()
                if held and held[-1].path.parent.name == key
            )
        )
        missing = (stored - {*self.measurer.recorded}) | (counted - {*self.measurer.recorded_work})
        return sorted(filter(self.selection.covers, missing - self.selection.deselected))

    def waiver_problems(self) -> Iterator[str]:
        """Yield a sentence for each waiver that must be deleted; any such waiver fails the run.

        Waivers for devices that this run did not use are not checked, nor is any in a run without
        baselines.
        """
        devices = {sessions[-1].device.key for sessions in self.measurer.sessions.values()}
        devices |= {result.device for result in self.results}
        for waiver in self.acceptance.waivers:
            if self.measurer.compares and any(map(waiver.is_for, devices)):
                why = self._why_superfluous(waiver)
                if why is not None:
                    file = self.acceptance.waivers_file
                    yield f"{file}: delete the waiver for {waiver.name}: {why}"

    def _why_superfluous(self, waiver: Waiver) -> str | None:
        if self.acceptance.today > waiver.expires:
            return f"it expired on {waiver.expires}"
        if self.selection.find_removed([waiver.benchmark], self.selection.timed):
            return "there is no such benchmark"
        here = (each for each in self.results if not each.against and waiver.is_for(each.device))
        results = [result for result in here if result.benchmark == waiver.benchmark]
        metrics = {name for result in results for name in gated_names(result.quantity)}
        if results and waiver.metric not in metrics:
            return "that metric does not decide on the benchmark"
        waived = [result for result in results if result.comparison.metric == waiver.metric]
        judged = [result for result in waived if result.comparison.outcome not in UNJUDGED]
        # A change within a wider bound may fail again on another machine.
        needed = any(
            each.passes_by_wider_bound or each.comparison.outcome not in NO_WORSE for each in judged
        )
        if judged and not needed:
            device = judged[-1].device or "any host"
            return f"without it, it is {judged[-1].comparison.outcome} on {device}"
        return None

    def _keep_results(
        self, against_ref: list[GateResult], stored: list[GateResult]
    ) -> list[GateResult]:
        """Keep all results; return the judged ones, or else the baseline's, or else the duets'."""
        results = [*against_ref, *stored]
        self.results += results
        judged = [result for result in results if result.comparison.outcome not in UNJUDGED]
        return judged or stored or against_ref

    def _compare_duets(
        self, against: Against, benchmark: str, quantity: str, subject: Subject
    ) -> list[GateResult]:
        now, key = self.measurer.measure(subject)[-1], subject.full_key
        request = self.measurer.request(subject)
        is_waived = partial(self._is_waived, benchmark, now.device.key)
        time_duets = partial(against.compare, quantity, key, subject.command, request, is_waived)
        found = self.measurer.raise_again(("duets", quantity, key), time_duets)
        label = against.commit.label
        if found is None:
            median = getattr(now, quantity).median
            found = Comparison.without_baseline(f"{label} lacks or skips {benchmark}", median)
        return self._make_results(benchmark, quantity, found.metrics or [found], now, label)

    def _compare_stored(self, benchmark: str, quantity: str, subject: Subject) -> list[GateResult]:
        """Compare a benchmark with its baseline; run more sessions while the outcome is open."""
        sessions = self.measurer.measure(subject)
        baselines = self.baselines_of(sessions[-1].device.key)
        if baselines and subject.accelerator in self.measurer.without_baseline:
            sessions = self.measurer.benchmark_again(benchmark, subject)
        now = sessions[-1]
        if not baselines:
            reason = f"there is no baseline for {now.device.key}"
            found = Comparison.without_baseline(reason, getattr(now, quantity).median)
            return self._make_results(benchmark, quantity, [found], now)
        holder = self._find_holder(benchmark, baselines, now.host)
        stored, *earlier = (
            BaselineSessions(recording.name, recording.sessions.get(benchmark, ()))
            for recording in (holder, *baselines[: baselines.index(holder)])
        )

        measured = list(sessions)

        def measure_again(undecided: Comparison) -> None:
            why = next(metric.reason for metric in undecided.metrics if metric.is_open)
            measured.append(self.measurer.measure_session(subject, f"again, to be sure: {why}"))

        compare_all = partial(compare, quantity, measured, stored, earlier)
        is_waived = partial(self._is_waived, benchmark, now.device.key)
        found = compare_until_decided(compare_all, measure_again, is_waived)
        self.measurer.sessions[subject.full_key] = tuple(measured)
        return self._make_results(benchmark, quantity, found.metrics or [found], measured[-1])

    def _find_holder(self, benchmark: str, baselines: Sequence[Baseline], host: Host) -> Baseline:
        """Return the baseline to compare with, and add a note if it is not the latest."""
        latest = baselines[-1]
        holder = baseline.find_holder(benchmark, baselines, host) or latest
        if holder is not latest:
            why = "was recorded on another class of host"
            if not latest.sessions.get(benchmark):
                why = f"does not hold {benchmark}"
            self._note_once(
                f"{latest.path.name} {why}: {benchmark} is compared with {holder.path.name}"
            )
        return holder

    def work_baselines_of(self, versions: Mapping[str, str]) -> tuple[WorkBaseline, ...]:
        """Return the baselines of work for these versions, or for the most similar, latest last.

        Other versions do not serve where a missing baseline fails the run.
        """
        key = work_key(versions)
        if key not in self._work_baselines:
            folder = self.acceptance.baselines / WORK_FOLDER
            if self.measurer.options.fail_when_missing:
                found = load_work_baselines(folder / key)
            else:
                found = load_nearest(folder, versions)
            if not found and self.local_baselines is not None:
                found = load_nearest(self.local_baselines / WORK_FOLDER, versions)
                self._note_local(found)
            self._work_baselines[key] = found
        return self._work_baselines[key]

    def _note_versions(self, versions: Mapping[str, str], used: Sequence[WorkBaseline]) -> None:
        if used and (differ := describe_versions(versions, used[-1].versions)):
            self._note_once(
                f"{used[-1].name} has other versions ({differ}): work inside these packages is not "
                "compared. To compare all, record a baseline: --netpipe-record NAME"
            )

    def _note_once(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _make_results(
        self, benchmark: str, quantity: str, compared: Sequence[Comparison],
        now: Measurement | None, against: str = "",
    ) -> list[GateResult]:  # fmt: skip
        device = now.device.key if now else ""
        results = []
        for alone in compared:
            comparison, waiver = self._apply_waivers(benchmark, device, alone)
            results.append(GateResult(benchmark, quantity, comparison, now, waiver, against))
        return results

    def _is_waived(self, benchmark: str, device: str, metric: Comparison) -> bool:
        return self._apply_waivers(benchmark, device, metric)[1] is not None

    def _apply_waivers(
        self, benchmark: str, device: str, metric: Comparison
    ) -> tuple[Comparison, Waiver | None]:
        accepted = self.acceptance
        return apply_waivers(accepted.waivers, metric, benchmark, device, accepted.today)
