"""The state of one run: each subject is measured once, confirmed when in doubt, and compared."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from netpipe.errors import NetpipeError
from netpipe.harness import baseline, device, gate, session
from netpipe.harness.baseline import Baseline
from netpipe.harness.gate import Comparison, Outcome
from netpipe.harness.measurement import Device, Finding, Measurement
from netpipe.harness.session import SessionRequest
from netpipe.harness.stall import judge
from netpipe.harness.verdict import Verdict
from netpipe.suite.against import Against
from netpipe.suite.options import Options

Command = Sequence[str]
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Subject:
    """One loader with its step and loop, against one accelerator.

    Attributes:
        key: Tells it from others.
        accelerator: "auto" or an emulated one.
        command: What a session of it runs.
    """

    key: tuple[object, ...]
    accelerator: str
    command: Command


@dataclass(frozen=True)
class Compared:
    """A benchmark's comparison.

    Attributes:
        benchmark: Its full name.
        quantity: What it is of.
        comparison: What it comes to.
        against: The git ref that it was compared with; "" for the baseline.
    """

    benchmark: str
    quantity: str
    comparison: Comparison
    against: str = ""

    @property
    def outcome(self) -> str:
        """What it comes to, and beside what, unless that is the baseline."""
        against = f" against {self.against}" if self.against else ""
        return f"{self.comparison.outcome.value}{against}"


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
        notes: What became of the files to be written.
        timed: The ids of the tests that ask for what a session measures or reads.
        left_to_run: The ids of the timed tests that pytest-xdist's workers left out, in order.
        deselected: The ids of the tests that exist but were not chosen.
    """

    options: Options
    compares: bool
    covers: Callable[[str], bool]
    say: Callable[[str], None]
    against: Against | None = None
    sessions: dict[tuple[object, ...], tuple[Measurement, ...]] = field(default_factory=dict)
    lints: dict[tuple[object, ...], dict[str, Any]] = field(default_factory=dict)
    compared: list[Compared] = field(default_factory=list)
    recorded: dict[str, tuple[Measurement, ...]] = field(default_factory=dict)
    deselected: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    timed: set[str] = field(default_factory=set)
    left_to_run: dict[str, None] = field(default_factory=dict)
    _baselines: dict[str, Baseline | None] = field(default_factory=dict)
    _failures: dict[Hashable, NetpipeError] = field(default_factory=dict)

    @cached_property
    def device(self) -> Device:
        """The device that jax finds, looked up in a process of its own."""
        return device.find_device()

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
        return session.measured(subject.command, self._request(subject, "measure"))

    def lint(self, subject: Subject) -> dict[str, Any]:
        """Return the `netpipe.lint/1` document of a subject's loader."""
        if subject.key not in self.lints:
            self.say("reading the order of the pipeline")
            request = self._request(subject, "lint")
            self.lints[subject.key] = self._once(
                (subject.key, "lint"), partial(session.linted, subject.command, request)
            )
        return self.lints[subject.key]

    def decide(self, benchmark: str, quantity: str, subject: Subject) -> Compared:
        """Compare a benchmark with what was asked for; where pairs can decide, they do."""
        paired = None
        if self.against is not None:
            paired = self._paired(self.against, benchmark, quantity, subject)
            if not self.compares:
                return paired
        decided = paired is not None and paired.comparison.outcome is not Outcome.NO_BASELINE
        comparison = self.compare(benchmark, quantity, subject, confirms=not decided)
        if paired is not None and decided:
            return paired
        return Compared(benchmark, quantity, comparison)

    def _paired(
        self, against: Against, benchmark: str, quantity: str, subject: Subject
    ) -> Compared:
        key = ("pairs", subject.key, subject.accelerator)
        request = self._request(subject, "measure")
        compare = partial(against.compare, quantity, key, subject.command, request)
        comparison = self._once(key, compare)
        if comparison is None:
            value = getattr(self.measure(subject)[-1], quantity).median
            reason = f"{against.ref} has no test {benchmark}"
            comparison = Comparison(Outcome.NO_BASELINE, "", value, None, None, reason)
        self.compared.append(Compared(benchmark, quantity, comparison, against.ref))
        return self.compared[-1]

    def compare(
        self, benchmark: str, quantity: str, subject: Subject, confirms: bool = True
    ) -> Comparison:
        """Hold a benchmark against its baseline; an alarm counts when a fresh process agrees."""
        sessions = self.measure(subject)
        comparison = self._compare(benchmark, quantity, sessions[-1])
        if comparison.outcome is Outcome.REGRESSED and confirms:
            confirming = self.again(subject, f"to confirm: {comparison.reason}")
            self.sessions[subject.key, subject.accelerator] = (*sessions, confirming)
            comparison = self._compare(benchmark, quantity, confirming)
        self.compared.append(Compared(benchmark, quantity, comparison))
        return comparison

    def lost_benchmarks(self) -> list[str]:
        """Return the benchmarks that a baseline in use holds and that no test produced."""
        stored = {
            name for one in self._baselines.values() if one is not None for name in one.sessions
        }
        return sorted(
            name for name in stored - set(self.recorded) - self.deselected if self.covers(name)
        )

    def baseline_of(self, key: str) -> Baseline | None:
        """Return the latest baseline of a device key."""
        if key not in self._baselines:
            self._baselines[key] = baseline.latest(self.options.baselines / key)
        return self._baselines[key]

    def _compare(self, benchmark: str, quantity: str, now: Measurement) -> Comparison:
        found = self.baseline_of(now.device.key)
        if found is None:
            value = getattr(now, quantity).median
            reason = f"there is no baseline for {now.device.key}"
            return Comparison(Outcome.NO_BASELINE, "", value, None, None, reason)
        return gate.compare(
            quantity, now, found.sessions.get(benchmark, ()), f"{now.device.key}/{found.path.name}"
        )

    def _confirmed(self, subject: Subject, which: str) -> Measurement:
        """Measure once, and again when the verdict is not fine: it may have been the machine."""
        request = self._request(subject, "measure")
        self.say(f"measuring against {subject.accelerator}, {which}")
        first = session.measured(subject.command, request)
        verdict = judge(first)
        if verdict.passes(first):
            return first
        second = self.again(subject, f"to confirm: {verdict.message}")
        return replace(second, findings=(*second.findings, _unconfirmed(verdict, second)))

    def _request(self, subject: Subject, kind: str) -> SessionRequest:
        return replace(self.options.request, kind=kind, accelerator=subject.accelerator)


def _unconfirmed(first: Verdict, second: Measurement) -> Finding:
    again = judge(second).kind
    said = "confirmed" if again == first.kind else "not confirmed"
    return Finding(f"verdict-{said.replace(' ', '-')}", f"first {first.kind}, then {again}")
