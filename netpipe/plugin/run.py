"""The state of one run: each subject is measured once, confirmed when in doubt, and compared."""

import signal
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import ceil
from typing import Any, TypeVar

from netpipe.device import detection
from netpipe.device.emulated_names import parse_accelerator
from netpipe.errors import NetpipeError, OutOfTimeError
from netpipe.gate import baseline
from netpipe.gate.baseline import Baseline
from netpipe.gate.comparison import MAX_SESSIONS, BaselineSessions, compare_until_decided
from netpipe.gate.outcomes import UNJUDGED, Comparison, Outcome
from netpipe.gate.waivers import apply_waivers
from netpipe.gate.work_baselines import (
    WORK_FOLDER,
    WorkBaseline,
    compare_with_baselines,
    load_work_baselines,
    work_key,
)
from netpipe.gate.work_comparison import compare_work
from netpipe.jobs import parent
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.plugin.acceptance import Acceptance
from netpipe.plugin.against import MAX_DUET_SESSIONS, Against, dismiss_machine_alarm
from netpipe.plugin.gate_results import WORK, GateResult
from netpipe.plugin.options import Options
from netpipe.plugin.session_nodes import Subject
from netpipe.plugin.time_limit import LongPhases, TimeLimit, limit_s
from netpipe.results.measurement import Device, Finding, Host, Measurement
from netpipe.results.work_profile import WorkProfile
from netpipe.resuming import checking
from netpipe.verdict.decision import judge
from netpipe.work_counts import counting
from netpipe.work_counts.counting import WorkRequest

_Result = TypeVar("_Result")


@dataclass
class Run:
    """Everything that this run measured and decided.

    Attributes:
        compares: Whether results are compared with baselines.
        covers: Whether this run would have found a test of a given id.
        against: The other version, whose duets with this one decide; None without one.
        sessions: The sessions of every subject measured, by its full key.
        has_benchmarks: Whether any test is to be compared, selected or not.
        timed: The ids of the tests that need a session.
        left_to_run: The ids of the timed tests that pytest-xdist's workers left out, in order.
    """

    options: Options
    compares: bool
    covers: Callable[[str], bool]
    say: Callable[[str], None]
    against: Against | None = None
    sessions: dict[tuple[object, ...], tuple[Measurement, ...]] = field(default_factory=dict)
    lints: dict[tuple[object, ...], dict[str, Any]] = field(default_factory=dict)
    profiles: dict[tuple[object, ...], WorkProfile] = field(default_factory=dict)
    resumes: dict[tuple[object, ...], checking.ResumeReport] = field(default_factory=dict)
    results: list[GateResult] = field(default_factory=list)
    recorded: dict[str, tuple[Measurement, ...]] = field(default_factory=dict)
    recorded_work: dict[str, WorkProfile] = field(default_factory=dict)
    deselected: set[str] = field(default_factory=set)
    has_benchmarks: bool = False
    notes: list[str] = field(default_factory=list)
    timed: set[str] = field(default_factory=set)
    left_to_run: dict[str, None] = field(default_factory=dict)
    ended_by: int = 0
    is_finishing: bool = False
    acceptance: Acceptance = field(default_factory=Acceptance)
    _baselines: dict[str, tuple[Baseline, ...]] = field(default_factory=dict)
    _work_baselines: dict[str, tuple[WorkBaseline, ...]] = field(default_factory=dict)
    _failures: dict[Hashable, NetpipeError] = field(default_factory=dict)
    _limits: dict[Hashable, TimeLimit] = field(default_factory=dict)
    _benchmarked: set[Hashable] = field(default_factory=set)

    @cached_property
    def device(self) -> Device:
        """The device that jax finds, looked up in a process of its own."""
        return detection.find_device()

    def interrupt(self, number: int) -> KeyboardInterrupt | None:
        """Note the signal that ends the run, and return the error that ends it.

        A run whose tests have ended writes its outputs and cleans up, which takes no time: pytest
        no longer expects an error.
        """
        self.ended_by = number
        return None if self.is_finishing else KeyboardInterrupt(signal.Signals(number).name)

    def say_limit(self) -> None:
        """Tell the user how long the timed tests may take."""
        request = self.options.request
        duets_s = limit_s(request, MAX_DUET_SESSIONS) if self.options.against else 0.0
        all_s = self.sessions_limit_s + duets_s
        self.say(
            f"timed tests: {len(self.timed)}; a session measures for {request.budget_s:g} s; all "
            f"sessions of one loader and step end within {ceil(all_s / 60)} min, of which the "
            f"first batch may take {request.start_limit_s:g} s"
        )

    @property
    def adds_first_tests(self) -> bool:
        """Whether the other version has nothing to compare with, whatever its tests are named."""
        return self.against is not None and self.against.has_no_tests

    @property
    def compares_nothing(self) -> bool:
        """Whether something was to be compared, and nothing was, for whatever reason.

        Metrics that were not judged do not count where a missing baseline fails, nor with a ref
        that has any test with netpipe.
        """
        if not self.compares and not self.options.against:
            return False
        fails = self.options.fail_when_missing
        if self.results:
            judged, unjudged = set[bool](), set[bool]()
            for result in self.results:
                is_judged = result.comparison.outcome not in UNJUDGED
                (judged if is_judged else unjudged).add(result.quantity == WORK)
            # Counts of work do not stand in for times, nor times for counts.
            fails |= bool(self.options.against) and not self.adds_first_tests
            return fails and not unjudged <= judged
        has_measured = self.sessions or self.lints or self.resumes
        is_unmeasured = bool(self.timed or fails) and not has_measured
        return is_unmeasured or self.has_benchmarks or bool(self.lost_benchmarks())

    def measure(self, subject: Subject, wanted: int = 1) -> tuple[Measurement, ...]:
        """Return at least `wanted` sessions of a subject, measuring the missing ones."""
        key = subject.full_key
        sessions = self.sessions.get(key, ())
        while len(sessions) < wanted:
            if self.options.record and sessions and not judge(sessions[-1]).passes(sessions[-1]):
                self.say("that session cannot be a baseline: the others are left out")
                break
            which = f"session {len(sessions) + 1} of {wanted}"
            confirmed = self._raise_again(key, partial(self._measure_confirmed, subject, which))
            self.sessions[key] = sessions = (*sessions, confirmed)
        return sessions

    def _raise_again(self, key: Hashable, measure: Callable[[], _Result]) -> _Result:
        """Measure; where that failed before, raise the same error without another wait."""
        if key in self._failures:
            raise self._failures[key]
        try:
            return measure()
        except NetpipeError as error:
            self._failures[key] = error
            raise

    def _measure_confirmed(self, subject: Subject, which: str) -> Measurement:
        """Measure once, and again when the verdict is bad: the machine may have caused it."""
        first = self._measure_once(subject, f"against {subject.accelerator}, {which}")
        verdict = judge(first)
        if verdict.passes(first):
            return first
        try:
            second = self._measure_once(subject, f"again, to confirm: {verdict.message}")
        except OutOfTimeError as error:
            return replace(first, findings=(*first.findings, Finding("not-repeated", str(error))))
        again = judge(second).kind
        name = "verdict-confirmed" if again == verdict.kind else "verdict-not-confirmed"
        finding = Finding(name, f"first {verdict.kind}, then {again}")
        return replace(second, findings=(*second.findings, finding))

    def _measure_once(self, subject: Subject, description: str) -> Measurement:
        """Measure in the time that the sessions of this subject have left."""
        self.say(f"measuring {description}")
        limit = self._limits.setdefault(subject.full_key, TimeLimit(self.sessions_limit_s))
        measure = partial(parent.run_measurement, subject.command, progress=LongPhases(self.say))
        return limit.run(self._request(subject), measure)

    @property
    def sessions_limit_s(self) -> float:
        """Seconds that the sessions of one subject may take in all, without duets."""
        # One session may confirm a bad verdict, and a comparison may need more.
        sessions = 1 + (MAX_SESSIONS if self.compares else 1)
        if self.options.record:
            sessions = 2 * self.options.sessions
        return limit_s(self.options.request, sessions)

    def benchmark(self, name: str, subject: Subject) -> tuple[Measurement, ...]:
        """Return the sessions behind a benchmark: one, or as many as a recording takes."""
        if self._gates and self._may_end_early(subject):
            # Sessions that ended as soon as their verdict was clear are too short for the gate.
            self.sessions.pop(subject.full_key, None)
        self._benchmarked.add(subject.full_key)
        wanted = self.options.sessions if self.options.record else 1
        self.recorded[name] = self.measure(subject, wanted)
        return self.recorded[name]

    def lint(self, subject: Subject) -> dict[str, Any]:
        """Return the `netpipe.lint/1` document of a subject's loader."""
        if subject.key not in self.lints:
            self.say("reading the order of the pipeline")
            request = replace(self.options.lint_request, accelerator=subject.accelerator)
            progress = LongPhases(self.say)
            lint = partial(parent.run_session, subject.command, request, progress=progress)
            self.lints[subject.key] = self._raise_again((subject.key, "lint"), lint)
        return self.lints[subject.key]

    def check_resume(self, subject: Subject) -> checking.ResumeReport:
        """Return what became of each state of a subject's loader."""
        if subject.key not in self.resumes:
            self.say("restoring the states of the loader")
            limits, progress = self.options.request, LongPhases(self.say)
            request = checking.ResumeRequest(
                accelerator=subject.accelerator,
                start_limit_s=limits.start_limit_s,
                batch_limit_s=limits.batch_limit_s,
            )
            check = partial(checking.check_resume, subject.command, request, progress)
            self.resumes[subject.key] = self._raise_again((subject.key, "resume"), check)
        return self.resumes[subject.key]

    def count_work(self, test: str, subject: Subject) -> WorkProfile:
        """Return the work profile of a subject's loader and step, counting it if need be."""
        if subject.full_key not in self.profiles:
            self.say("counting the work of a batch")
            request, progress = self._work_request(subject), LongPhases(self.say)
            count = partial(counting.count_work, subject.command, request, progress=progress)
            self.profiles[subject.full_key] = self._raise_again((subject.full_key, WORK), count)
        self.recorded_work[test] = self.profiles[subject.full_key]
        return self.recorded_work[test]

    def _work_request(self, subject: Subject) -> WorkRequest:
        limits = self.options.request
        request = WorkRequest(
            accelerator=subject.accelerator,
            start_limit_s=limits.start_limit_s,
            batch_limit_s=limits.batch_limit_s,
        )
        if self.against is None or self.adds_first_tests:
            return request
        return self.against.prepare().request_here(request)

    def decide_work(self, test: str, subject: Subject) -> list[GateResult]:
        """Compare the work of a subject as `decide` compares its times."""
        now = self.count_work(test, subject)
        against_ref, stored = list[GateResult](), list[GateResult]()
        if self.against is not None:
            label = self.against.commit.label
            count = partial(self.against.count_work, subject.command, self._work_request(subject))
            then = self._raise_again((subject.full_key, "work against"), count)
            compared = compare_work(now, then) if then else ()
            against_ref += self._work_results(test, compared, f"{label} has no test {test}", label)
        if self.compares:
            key = work_key(now.versions)
            compared = compare_with_baselines(test, now, self.work_baselines_of(key))
            stored += self._work_results(test, compared, f"there is no baseline of work for {key}")
        return self._select_judged(against_ref, stored)

    def work_baselines_of(self, key: str) -> tuple[WorkBaseline, ...]:
        """Return every baseline of work for a key, the latest last."""
        if key not in self._work_baselines:
            folder = self.acceptance.baselines / WORK_FOLDER / key
            self._work_baselines[key] = load_work_baselines(folder)
        return self._work_baselines[key]

    def _work_results(
        self, test: str, compared: Sequence[Comparison], missing: str, against: str = ""
    ) -> Iterator[GateResult]:
        waivers, today = self.acceptance.waivers, self.acceptance.today
        for alone in compared or (Comparison(Outcome.NO_BASELINE, "", 0.0, None, missing),):
            comparison, waiver = apply_waivers(waivers, alone, test, "", today)
            yield GateResult(test, WORK, comparison, None, waiver, against)

    def decide(self, benchmark: str, quantity: str, subject: Subject) -> list[GateResult]:
        """Compare a benchmark with the other version and the baseline.

        Returns the results that were judged; where none was, those of the baseline, else of the
        duets.
        """
        against_ref: list[GateResult] = []
        if self.against is not None:
            against_ref = self._compare_duets(self.against, benchmark, quantity, subject)
        stored = self._compare_stored(benchmark, quantity, subject) if self.compares else []
        if self.against is not None and stored:
            baselines = self.baselines_of(stored[0].device)
            commit = self.against.commit.sha
            stored = [
                dismiss_machine_alarm(result, against_ref, commit, baselines) for result in stored
            ]
        return self._select_judged(against_ref, stored)

    def _select_judged(
        self, against_ref: list[GateResult], stored: list[GateResult]
    ) -> list[GateResult]:
        """Keep all results; return those that were judged, else those of the baseline."""
        results = [*against_ref, *stored]
        self.results += results
        judged = [result for result in results if result.comparison.outcome not in UNJUDGED]
        return judged or stored or against_ref

    def _compare_duets(
        self, against: Against, benchmark: str, quantity: str, subject: Subject
    ) -> list[GateResult]:
        now, key = self.measure(subject)[-1], subject.full_key
        # A trace of this version exists already, and the other version needs none.
        request = replace(self._request(subject), trace="", trace_name="")
        compare = partial(against.compare, quantity, key, subject.command, request)
        found = self._raise_again(("duets", quantity, *key), compare)
        label = against.commit.label
        if found is None:
            found = Comparison.without_baseline(quantity, [now], f"{label} has no test {benchmark}")
        return self._results(benchmark, quantity, found, now, label)

    def _results(
        self, benchmark: str, quantity: str, found: Comparison, now: Measurement, against: str = ""
    ) -> list[GateResult]:
        waivers, today = self.acceptance.waivers, self.acceptance.today
        results = []
        for alone in found.metrics or (found,):
            comparison, waiver = apply_waivers(waivers, alone, benchmark, now.device.key, today)
            results.append(GateResult(benchmark, quantity, comparison, now, waiver, against))
        return results

    def _compare_stored(self, benchmark: str, quantity: str, subject: Subject) -> list[GateResult]:
        """Compare a benchmark with its baseline, in more sessions while the outcome is open."""
        sessions = self.measure(subject)
        key = sessions[-1].device.key
        baselines = self.baselines_of(key)
        if not baselines:
            reason = f"there is no baseline for {key}"
            found = Comparison.without_baseline(quantity, sessions, reason)
            return self._results(benchmark, quantity, found, sessions[-1])
        holder = self._find_holder(benchmark, baselines, sessions[-1].host)
        stored, *earlier = (
            BaselineSessions(recording.name, recording.sessions.get(benchmark, ()))
            for recording in (holder, *baselines[: baselines.index(holder)])
        )

        def measure_again(undecided: Comparison) -> Measurement:
            return self._measure_once(subject, f"again, to be sure: {undecided.open_reason}")

        found, sessions = compare_until_decided(quantity, sessions, stored, earlier, measure_again)
        self.sessions[subject.full_key] = sessions
        return self._results(benchmark, quantity, found, sessions[-1])

    def _find_holder(self, benchmark: str, baselines: Sequence[Baseline], host: Host) -> Baseline:
        """Return the baseline to compare with, and note it where it is not the latest."""
        latest = baselines[-1]
        holder = baseline.find_holder(benchmark, baselines, host) or latest
        if holder is not latest:
            why = "was recorded on another class of host"
            if not latest.sessions.get(benchmark):
                why = f"does not hold {benchmark}"
            note = f"{latest.path.name} {why}: {benchmark} is compared with {holder.path.name}"
            if note not in self.notes:
                self.notes.append(note)
        return holder

    def is_removed(self, benchmark: str) -> bool:
        """Return whether this run would have found the benchmark's test, and there is none."""
        return benchmark not in self.timed | self.deselected and self.covers(benchmark)

    def lost_benchmarks(self) -> list[str]:
        """Return the benchmarks that baselines in use hold and that no test produced."""
        stored = set().union(*map(baseline.find_holders, self._baselines.values()))
        counted = (held[-1].profiles for held in self._work_baselines.values() if held)
        missing = (stored - set(self.recorded)) | (set().union(*counted) - set(self.recorded_work))
        return sorted(filter(self.covers, missing - self.deselected))

    def baselines_of(self, key: str) -> tuple[Baseline, ...]:
        """Return every baseline of a device key, the latest last."""
        if key not in self._baselines:
            self._baselines[key] = baseline.load_all(self.acceptance.baselines / key)
        return self._baselines[key]

    @property
    def _gates(self) -> bool:
        """Whether the times of benchmarks are compared or recorded."""
        return self.compares or bool(self.options.record or self.against)

    def _may_end_early(self, subject: Subject) -> bool:
        """Return whether only the verdict of its sessions counts, as far as is known by now."""
        is_emulated = parse_accelerator(subject.accelerator) is not None
        is_verdict_alone = is_emulated and subject.full_key not in self._benchmarked
        return is_verdict_alone or not self._gates

    def _request(self, subject: Subject) -> MeasureRequest:
        request = replace(
            self.options.request,
            accelerator=subject.accelerator,
            stopping_rule="clear" if self._may_end_early(subject) else "budget",
        )
        return replace(request, trace_name=subject.name) if request.trace else request
