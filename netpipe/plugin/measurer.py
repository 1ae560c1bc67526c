"""The measurer of a run, which measures each subject once, or again after a bad verdict."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from netpipe.device.emulated_names import parse_accelerator
from netpipe.errors import NetpipeError, OutOfTimeError
from netpipe.gate.comparison import MAX_SESSIONS
from netpipe.jobs.progress import OnProgress
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.plugin.against import Against
from netpipe.plugin.options import Options
from netpipe.plugin.session_nodes import Subject
from netpipe.plugin.sessions import Jobs, LongPhases, TimeLimit, limit_s
from netpipe.results.measurement import Finding, Measurement
from netpipe.results.work_profile import WorkProfile
from netpipe.resuming.checking import ResumeReport, ResumeRequest
from netpipe.verdict.decision import judge
from netpipe.work_counts.reproducible_counts import WorkRequest

_Result = TypeVar("_Result")


@dataclass
class Measurer:
    """Runs the sessions of each subject, and keeps their results.

    Attributes:
        compares: Whether results are compared with baselines.
        against: The other version, which is timed beside this one; None if there is none.
        sessions: The sessions of each measured subject, by the subject's full key.
        tests: The first test that requested each subject, by the subject's full key.
        recorded: The sessions behind each benchmark, by the id of its test.
        durations: What the sessions did, in order, with the time of each phase.
        without_baseline: The accelerators that seem to have no baseline to compare with.
    """

    options: Options
    compares: bool
    report_progress: Callable[[str], None]
    jobs: Jobs = field(default_factory=Jobs)
    draw_progress: Callable[[str], None] = lambda _: None
    against: Against | None = None
    sessions: dict[Hashable, tuple[Measurement, ...]] = field(default_factory=dict)
    tests: dict[Hashable, str] = field(default_factory=dict)
    lints: dict[Hashable, dict[str, Any]] = field(default_factory=dict)
    profiles: dict[Hashable, WorkProfile] = field(default_factory=dict)
    resumes: dict[Hashable, ResumeReport] = field(default_factory=dict)
    recorded: dict[str, tuple[Measurement, ...]] = field(default_factory=dict)
    recorded_work: dict[str, WorkProfile] = field(default_factory=dict)
    durations: list[str] = field(default_factory=list)
    without_baseline: set[str] = field(default_factory=set)
    _failures: dict[Hashable, NetpipeError] = field(default_factory=dict)
    _limits: dict[Hashable, TimeLimit] = field(default_factory=dict)
    _benchmarked: set[Hashable] = field(default_factory=set)

    @property
    def sessions_limit_s(self) -> float:
        """Seconds that all sessions of one subject may take together, not counting duets."""
        # One session may confirm a bad verdict, and a comparison may need more.
        sessions = 1 + (MAX_SESSIONS if self.compares else 1)
        if self.options.record:
            sessions = 2 * self.options.sessions
        return limit_s(self.options.request, sessions)

    def measure(self, subject: Subject, wanted: int = 1) -> tuple[Measurement, ...]:
        """Return at least `wanted` sessions of a subject; a recording stops after a bad verdict."""
        key = subject.full_key
        sessions = self.sessions.get(key, ())
        while len(sessions) < wanted:
            if self.options.record and sessions and not judge(sessions[-1]).passes(sessions[-1]):
                self.report_progress("that session cannot be a baseline: the others are skipped")
                break
            which = f"session {len(sessions) + 1} of {wanted}"
            confirmed = self.raise_again(key, partial(self._measure_confirmed, subject, which))
            self.sessions[key] = sessions = (*sessions, confirmed)
            self.tests.setdefault(key, subject.name)
        return sessions

    def measure_session(self, subject: Subject, description: str) -> Measurement:
        """Measure one session; raise an OutOfTimeError if no time is left for this subject."""
        limit = self._limits.setdefault(subject.full_key, TimeLimit(self.sessions_limit_s))

        def measure(progress: OnProgress) -> Measurement:
            run = partial(self.jobs.measure, subject.command, progress=progress)
            return limit.run(self.request(subject), run)

        return self._follow(f"measuring {description}{limit.remark}", measure)

    def benchmark(self, test: str, subject: Subject) -> tuple[Measurement, ...]:
        """Return the sessions behind a benchmark: at least one, or as many as a recording needs."""
        if self._gates(subject) and self._may_end_early(subject):
            # Sessions that ended as soon as their verdict was clear are too short for the gate.
            self.sessions.pop(subject.full_key, None)
        self._benchmarked.add(subject.full_key)
        wanted = self.options.sessions if self.options.record else 1
        self.recorded[test] = self.measure(subject, wanted)
        return self.recorded[test]

    def benchmark_again(self, test: str, subject: Subject) -> tuple[Measurement, ...]:
        """Measure again for the gate, because the devices of the step have a baseline after all."""
        self.without_baseline.discard(subject.accelerator)
        del self.sessions[subject.full_key]
        return self.benchmark(test, subject)

    def lint(self, subject: Subject) -> dict[str, Any]:
        """Return the `netpipe.lint/1` document of a subject's loader."""
        request = replace(self.options.lint_request, accelerator=subject.accelerator)
        lint = partial(self.jobs.lint, subject.command, request)
        return self._run_once(self.lints, subject.key, "reading the order of the pipeline", lint)

    def check_resume(self, subject: Subject) -> ResumeReport:
        """Return a report on resuming a subject's loader from each of its saved states."""
        request = ResumeRequest(**self._limits_of(subject))
        check = partial(self.jobs.check_resume, subject.command, request)
        return self._run_once(
            self.resumes, subject.key, "restoring the states of the loader", check
        )

    def count_work(self, test: str, subject: Subject) -> WorkProfile:
        """Return the work profile of a subject's loader and step."""

        def count(**followed: Any) -> WorkProfile:
            return self.jobs.count_work(subject.command, self.work_request(subject), **followed)

        doing = "counting the work of a batch"
        found = self._run_once(self.profiles, subject.full_key, doing, count)
        self.recorded_work[test] = found
        return found

    def work_request(self, subject: Subject) -> WorkRequest:
        """Return the request for counting the work of this version."""
        request = WorkRequest(**self._limits_of(subject))
        if self.against is None or self.against.has_no_tests:
            return request
        return self.against.prepare().request_here(request)

    def request(self, subject: Subject) -> MeasureRequest:
        """Return the request for a session that measures a subject."""
        request = replace(
            self.options.request,
            accelerator=subject.accelerator,
            stopping_rule="clear" if self._may_end_early(subject) else "compared",
        )
        return replace(request, trace_name=subject.name) if request.trace else request

    def raise_again(self, key: Hashable, measure: Callable[[], _Result]) -> _Result:
        """Call `measure`; if it failed for this key before, raise the same error again instead."""
        if key in self._failures:
            raise self._failures[key]
        try:
            return measure()
        except NetpipeError as error:
            self._failures[key] = error
            raise

    def _run_once(
        self, found: dict[Hashable, _Result], key: Hashable, doing: str, job: Callable[..., _Result]
    ) -> _Result:
        if key not in found:
            found[key] = self.raise_again((key, doing), partial(self._follow, doing, job))
        return found[key]

    def _follow(self, doing: str, job: Callable[..., _Result]) -> _Result:
        """Call a job, report its progress, and keep the seconds of its phases."""
        self.report_progress(doing)
        phases = LongPhases(self.report_progress, self.draw_progress)
        try:
            return job(progress=phases)
        finally:
            self.durations.append(f"{doing}: {phases.describe()}")

    def _measure_confirmed(self, subject: Subject, which: str) -> Measurement:
        """Measure once, and again if the verdict is bad, because the machine may have caused it."""
        first = self.measure_session(subject, f"against {subject.accelerator}, {which}")
        verdict = judge(first)
        if verdict.passes(first):
            return first
        try:
            second = self.measure_session(subject, f"again, to confirm: {verdict.message}")
        except OutOfTimeError as error:
            return replace(first, findings=(*first.findings, Finding("not-repeated", str(error))))
        again = judge(second).kind
        name = "verdict-confirmed" if again == verdict.kind else "verdict-not-confirmed"
        finding = Finding(name, f"first {verdict.kind}, then {again}")
        return replace(second, findings=(*second.findings, finding))

    def _limits_of(self, subject: Subject) -> dict[str, Any]:
        return {
            "accelerator": subject.accelerator,
            "start_limit_s": self.options.request.start_limit_s,
            "batch_limit_s": self.options.request.batch_limit_s,
        }

    def _gates(self, subject: Subject) -> bool:
        """Return whether the times of the subject's benchmarks are compared or recorded."""
        compares = self.compares and subject.accelerator not in self.without_baseline
        return compares or bool(self.options.record or self.against)

    def _may_end_early(self, subject: Subject) -> bool:
        """Return whether, as far as is known, only the verdict of the subject's sessions counts."""
        is_emulated = parse_accelerator(subject.accelerator) is not None
        is_verdict_alone = is_emulated and subject.full_key not in self._benchmarked
        return is_verdict_alone or not self._gates(subject)
