"""The state of one run: each subject is measured once, confirmed when in doubt, and compared."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import ceil
from typing import Any, Final, TypeVar

import pytest

from netpipe.device import detection
from netpipe.errors import NetpipeError, OutOfTimeError
from netpipe.gate import baseline, comparison
from netpipe.gate.baseline import Baseline
from netpipe.gate.comparison import MAX_SESSIONS, UNJUDGED, BaselineSessions, Comparison, Outcome
from netpipe.gate.waivers import Waiver
from netpipe.measuring.request import MeasureRequest
from netpipe.results.measurement import Device, Finding, Measurement
from netpipe.session import parent
from netpipe.suite.acceptance import Acceptance
from netpipe.suite.against import Against, pairs_limit_s
from netpipe.suite.machine_drift import cleared
from netpipe.suite.options import Options
from netpipe.suite.time_limit import LongPhases, TimeLimit, limit_s
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import Verdict

Command = Sequence[str]
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Subject:
    """One loader with its step and loop, against one accelerator.

    Attributes:
        key: Tells it from others.
        accelerator: "auto" or an emulated one.
        command: What a session of it runs.
        name: The id of the test that asked for it first.
    """

    key: tuple[object, ...]
    accelerator: str
    command: Command
    name: str


@dataclass(frozen=True)
class GateResult:
    """One metric of a benchmark, compared.

    Attributes:
        benchmark: Its full name.
        quantity: What it is of.
        comparison: What it comes to, whatever is waived.
        now: What was measured.
        waiver: Under which a regression does not fail.
        against: The git ref that it was compared with; "" for the baseline.
    """

    benchmark: str
    quantity: str
    comparison: Comparison
    now: Measurement
    waiver: Waiver | None = None
    against: str = ""

    @property
    def fails(self) -> bool:
        """Whether it is a regression that nobody accepted."""
        return self.comparison.outcome is Outcome.REGRESSED and self.waiver is None

    @property
    def is_missing(self) -> bool:
        """Whether there was no baseline to judge it by, though there could be one."""
        unjudged = self.comparison.outcome in UNJUDGED
        return unjudged and not self.comparison.is_reported_only

    @property
    def has_no_earlier(self) -> bool:
        """Whether it was judged, and by no baseline before the latest."""
        is_judged = self.comparison.outcome not in UNJUDGED
        return is_judged and not self.against and not self.comparison.oldest

    @property
    def outcome(self) -> str:
        """The outcome as it is shown: compared with what, under which waiver."""
        against = f" against {self.against}" if self.against else ""
        waived = f", {self.waiver.words}" if self.waiver else ""
        return f"{self.comparison.outcome.value}{against}{waived}"

    def is_of(self, waiver: Waiver) -> bool:
        """Return whether it is what a waiver is for, by whatever metric."""
        here = not self.against and waiver.is_for(self.now.device.key)
        return here and self.benchmark == waiver.benchmark


# Behind what fails; a regression among them is waived.
_SEVERITY: Final = (
    Outcome.INCONCLUSIVE,
    Outcome.NO_BASELINE,
    Outcome.REGRESSED,
    Outcome.IMPROVED,
    Outcome.PASS,
    Outcome.NOT_COMPARED,
)


def deciding(compared: Sequence[GateResult]) -> GateResult:
    """Return which of a benchmark's comparisons its test is told by: the worst that was judged."""
    return min(
        compared,
        key=lambda one: (
            not one.fails,
            _SEVERITY.index(one.comparison.outcome),
            one.comparison.is_reported_only,
        ),
    )


@dataclass
class Run:
    """Everything that this run measured and decided.

    Attributes:
        options: What was asked for.
        compares: Whether results are held against baselines.
        covers: Whether a test of this id would have been found, if it were there.
        say: Tells the user what is going on.
        against: Another version, whose pairs with this one decide; None without one.
        sessions: The sessions of every subject measured, by key and accelerator.
        compared: Every comparison made, in order.
        lints: The order of every loader read, by subject.
        recorded: The sessions behind every benchmark, by full name.
        notes: What became of the files to be written, and which older baselines were needed.
        timed: The ids of the tests that ask for what a session measures or reads.
        left_to_run: The ids of the timed tests that pytest-xdist's workers left out, in order.
        deselected: The ids of the tests that exist but were not chosen.
        has_benchmarks: Whether any test is to be compared, chosen or not.
        acceptance: The baselines and waivers that it is held against.
    """

    options: Options
    compares: bool
    covers: Callable[[str], bool]
    say: Callable[[str], None]
    against: Against | None = None
    sessions: dict[tuple[object, ...], tuple[Measurement, ...]] = field(default_factory=dict)
    lints: dict[tuple[object, ...], dict[str, Any]] = field(default_factory=dict)
    compared: list[GateResult] = field(default_factory=list)
    recorded: dict[str, tuple[Measurement, ...]] = field(default_factory=dict)
    deselected: set[str] = field(default_factory=set)
    has_benchmarks: bool = False
    notes: list[str] = field(default_factory=list)
    timed: set[str] = field(default_factory=set)
    left_to_run: dict[str, None] = field(default_factory=dict)
    acceptance: Acceptance = field(default_factory=Acceptance)
    _baselines: dict[str, tuple[Baseline, ...]] = field(default_factory=dict)
    _failures: dict[Hashable, NetpipeError] = field(default_factory=dict)
    _limits: dict[Hashable, TimeLimit] = field(default_factory=dict)

    @cached_property
    def device(self) -> Device:
        """The device that jax finds, looked up in a process of its own."""
        return detection.find_device()

    def say_limit(self) -> None:
        """Say how long it may take to measure a loader with its step, for all tests of it."""
        request = self.options.request
        limit_s = self.sessions_limit_s + bool(self.options.against) * pairs_limit_s(request)
        self.say(
            f"timed tests: {len(self.timed)}; each loader with its step is measured within "
            f"{ceil(limit_s / 60)} min: {request.budget_s:g} s of rounds a session, and at most "
            f"{request.start_limit_s:g} s until the first batch"
        )

    @property
    def compares_nothing(self) -> bool:
        """Whether there was to be something to compare, and there was none, for whatever reason.

        Metrics that were not judged do not count with a ref, nor where a missing baseline fails.
        """
        if not self.compares and not self.options.against:
            return False
        fails = self.options.fail_when_missing
        if self.compared:
            counts = fails or bool(self.options.against)
            return counts and all(one.comparison.outcome in UNJUDGED for one in self.compared)
        is_unmeasured = bool(self.timed or fails) and not self.sessions and not self.lints
        return is_unmeasured or self.has_benchmarks or bool(self.lost_benchmarks())

    def measure(self, subject: Subject, wanted: int = 1) -> tuple[Measurement, ...]:
        """Return at least `wanted` sessions of a subject, measuring those not there yet."""
        key = (subject.key, subject.accelerator)
        sessions = self.sessions.get(key, ())
        while len(sessions) < wanted:
            which = f"session {len(sessions) + 1} of {wanted}"
            sessions = (*sessions, self._once(key, partial(self._confirmed, subject, which)))
            self.sessions[key] = sessions
        return sessions

    def _once(self, key: Hashable, measure: Callable[[], _Result]) -> _Result:
        """Measure, unless that failed before: a loader that hangs is not waited for twice."""
        if key in self._failures:
            raise self._failures[key]
        try:
            return measure()
        except NetpipeError as error:
            self._failures[key] = error
            raise

    def benchmark(self, name: str, subject: Subject) -> tuple[Measurement, ...]:
        """Return the sessions behind a benchmark: one, or as many as a recording takes."""
        wanted = self.options.sessions if self.options.record else 1
        self.recorded[name] = self.measure(subject, wanted)
        return self.recorded[name]

    def again(self, subject: Subject, why: str) -> Measurement:
        """Measure a subject once more, in a fresh process."""
        self.say(f"measuring again, {why}")
        return self._measured(subject)

    def _measured(self, subject: Subject) -> Measurement:
        """Measure once, in the time that the sessions of this subject have left."""
        request, slow = self._request(subject), LongPhases(self.say)
        limit = TimeLimit(self.sessions_limit_s)
        return self._limits.setdefault((subject.key, subject.accelerator), limit).run(
            request, partial(parent.run_measurement, subject.command, progress=slow)
        )

    @property
    def sessions_limit_s(self) -> float:
        """Seconds that the sessions of one subject may take in all, beside pairs."""
        # One may confirm a bad verdict, and a comparison may ask for more.
        most = 1 + (MAX_SESSIONS if self.compares else 1)
        if self.options.record:
            most = 2 * self.options.sessions
        return limit_s(self.options.request, most)

    def lint(self, subject: Subject) -> dict[str, Any]:
        """Return the `netpipe.lint/1` document of a subject's loader."""
        if subject.key not in self.lints:
            self.say("reading the order of the pipeline")
            slow = LongPhases(self.say)
            request = replace(self.options.lint_request, accelerator=subject.accelerator)
            self.lints[subject.key] = self._once(
                (subject.key, "lint"),
                partial(parent.run_session, subject.command, request, progress=slow),
            )
        return self.lints[subject.key]

    def decide(self, benchmark: str, quantity: str, subject: Subject) -> tuple[GateResult, ...]:
        """Compare a benchmark with the ref and the baseline; return what its outcome rests on."""
        paired: tuple[GateResult, ...] = ()
        if self.against is not None:
            paired = self._paired(self.against, benchmark, quantity, subject)
        held = self._held(benchmark, quantity, subject) if self.compares else ()
        held = tuple(self._cleared(one, paired) for one in held)
        self.compared += (*paired, *held)
        judged = [one for one in (*paired, *held) if one.comparison.outcome not in UNJUDGED]
        return tuple(judged) or held or paired

    def _paired(
        self, against: Against, benchmark: str, quantity: str, subject: Subject
    ) -> tuple[GateResult, ...]:
        key = ("pairs", subject.key, subject.accelerator)
        # The other version may keep none, and of this one there is one already.
        request = replace(self._request(subject), trace="", trace_name="")
        compare = partial(against.compare, quantity, key, subject.command, request)
        found = self._once(key, compare)
        if found is None:
            now = self.measure(subject)
            none = comparison.no_baseline(quantity, now, f"{against.ref} has no test {benchmark}")
            return self._judged(benchmark, quantity, none, now[-1], against.ref)
        compared, latest = found
        return self._judged(benchmark, quantity, compared, latest, against.ref)

    def _judged(
        self, benchmark: str, quantity: str, found: Comparison, now: Measurement, ref: str = ""
    ) -> tuple[GateResult, ...]:
        judged = (self.acceptance.judged(one, benchmark, now.device.key) for one in found.by_metric)
        return tuple(
            GateResult(benchmark, quantity, one, now, waiver, ref) for one, waiver in judged
        )

    def _held(self, benchmark: str, quantity: str, subject: Subject) -> tuple[GateResult, ...]:
        """Hold a benchmark against its baseline; what one session leaves open, more decide."""
        sessions = self.measure(subject)
        key = sessions[-1].device.key
        baselines = self.baselines_of(key)
        if not baselines:
            none = comparison.no_baseline(quantity, sessions, f"there is no baseline for {key}")
            return self._judged(benchmark, quantity, none, sessions[-1])
        latest = baselines[-1]
        holder = baseline.find_holder(benchmark, baselines, sessions[-1].host) or latest
        if holder is not latest:
            why = "was recorded on another class of host"
            if not latest.sessions.get(benchmark):
                why = f"does not hold {benchmark}"
            note = f"{latest.path.name} {why}: {benchmark} is compared with {holder.path.name}"
            if note not in self.notes:
                self.notes.append(note)
        accepted = _accepted(holder, benchmark)
        before = [_accepted(one, benchmark) for one in baselines[: baselines.index(holder)]]
        found, sessions = comparison.compare_until_decided(
            quantity,
            sessions,
            accepted,
            before,
            lambda open_: self.again(subject, f"to be sure: {open_.open_reason}"),
        )
        self.sessions[subject.key, subject.accelerator] = sessions
        return self._judged(benchmark, quantity, found, sessions[-1])

    def _cleared(self, held: GateResult, paired: Sequence[GateResult]) -> GateResult:
        """Return a comparison with a baseline, without an alarm that the machine has caused."""
        if self.against is None:
            return held
        found = cleared(
            held.comparison,
            [one.comparison for one in paired],
            self.against.commit.sha,
            self.baselines_of(held.now.device.key),
        )
        return held if found is held.comparison else replace(held, comparison=found, waiver=None)

    def is_gone(self, benchmark: str) -> bool:
        """Return whether this run would have found the benchmark's test, and there is none."""
        return benchmark not in self.timed | self.deselected and self.covers(benchmark)

    def lost_benchmarks(self) -> list[str]:
        """Return the benchmarks that baselines in use hold and that no test produced."""
        stored = {name for held in self._baselines.values() for name in baseline.find_holders(held)}
        return sorted(
            name for name in stored - set(self.recorded) - self.deselected if self.covers(name)
        )

    def baselines_of(self, key: str) -> tuple[Baseline, ...]:
        """Return every baseline of a device key, the latest last."""
        if key not in self._baselines:
            self._baselines[key] = baseline.load_all(self.acceptance.baselines / key)
        return self._baselines[key]

    def _confirmed(self, subject: Subject, which: str) -> Measurement:
        """Measure once, and again when the verdict is not fine: it may have been the machine."""
        self.say(f"measuring against {subject.accelerator}, {which}")
        first = self._measured(subject)
        verdict = judge(first)
        if verdict.passes(first):
            return first
        try:
            second = self.again(subject, f"to confirm: {verdict.message}")
        except OutOfTimeError as error:
            return replace(first, findings=(*first.findings, Finding("not-repeated", str(error))))
        return replace(second, findings=(*second.findings, _unconfirmed(verdict, second)))

    def _request(self, subject: Subject) -> MeasureRequest:
        request = replace(self.options.request, accelerator=subject.accelerator)
        return replace(request, trace_name=subject.name) if request.trace else request


def _accepted(held: Baseline, benchmark: str) -> BaselineSessions:
    return BaselineSessions(held.name, held.sessions.get(benchmark, ()))


def _unconfirmed(first: Verdict, second: Measurement) -> Finding:
    again = judge(second).kind
    said = "confirmed" if again == first.kind else "not confirmed"
    return Finding(f"verdict-{said.replace(' ', '-')}", f"first {first.kind}, then {again}")


RUN: Final = pytest.StashKey[Run]()
"""Where a config keeps its run."""
