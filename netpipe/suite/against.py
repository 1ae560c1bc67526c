"""This version and another one, measured in turns on this machine."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import pytest

from netpipe.errors import InputError, NetpipeError, NoSuchTestError, OutOfTimeError, SessionError
from netpipe.gate.baseline import Baseline
from netpipe.gate.comparison import mark_undecided
from netpipe.gate.outcomes import ALARMS, NO_WORSE, Comparison, Outcome
from netpipe.gate.pairs import MAX_PAIRS, MIN_PAIRS, Pair, decide
from netpipe.measuring.request import MeasureRequest
from netpipe.results.measurement import Measurement
from netpipe.results.work_profile import WorkProfile
from netpipe.session import parent
from netpipe.session.request import SessionRequest
from netpipe.suite.gate_results import GateResult
from netpipe.suite.other_version import Version, open_version
from netpipe.suite.time_limit import LongPhases, TimeLimit, limit_s
from netpipe.suite.worktrees import Commit
from netpipe.work_counts import counting
from netpipe.work_counts.request import WorkRequest

_Result = TypeVar("_Result")

TYPED_VARIABLE: Final = "NETPIPE_AGAINST_TYPED"
"""Holds the ref as the user of `netpipe ab` typed it, where the flag is given its hash."""


@dataclass
class Against:
    """Another version, and the pairs measured so far of it and this one, by subject.

    The extras are installed where the other version needs an environment of its own.
    """

    commit: Commit
    config: pytest.Config
    extras: str
    say: Callable[[str], None]
    pairs: dict[Hashable, list[Pair]] = field(default_factory=dict)
    _limits: dict[Hashable, TimeLimit] = field(default_factory=dict)
    _version: Version | None = None

    def prepare(self) -> Version:
        """Check the other version out and find its environment, once, until the end of the run.

        Raises:
            InputError: It cannot be checked out, or its environment cannot be made.
        """
        if self._version is None:
            opened = ExitStack()
            self.config.add_cleanup(opened.close)
            root = self.config.rootpath.resolve()
            other = open_version(self.commit, root, self.extras, self.say)
            self._version = opened.enter_context(other)
        return self._version

    def compare(
        self, quantity: str, key: Hashable, command: Sequence[str], request: MeasureRequest
    ) -> tuple[Comparison, Measurement] | None:
        """Measure both versions in turns until the pairs decide on a quantity.

        Earlier pairs of the same key count too. Returns the comparison, and the last session of
        this version; None where the other version has no such test.

        Raises:
            NetpipeError: A session of either version has failed.
        """
        found: Comparison
        pairs = self.pairs.setdefault(key, [])
        limit = self._limits.setdefault(key, TimeLimit(limit_s(request, 2 * MAX_PAIRS)))
        while not pairs or (found := decide(quantity, pairs)).is_open:
            measure = partial(self._measure_pair, len(pairs), command)
            try:
                pairs.append(limit.run(request, measure, sessions=2))
            except NoSuchTestError:
                return None
            except OutOfTimeError as error:
                if not pairs:
                    raise
                return mark_undecided(found, error), pairs[-1].now
        return found, pairs[-1].now

    def _measure_pair(self, done: int, command: Sequence[str], request: MeasureRequest) -> Pair:
        """Measure each version once; which goes first changes from pair to pair."""
        both = f"{self.commit.label} and this version"
        self.say(f"pair {done + 1} of {MIN_PAIRS} to {MAX_PAIRS}: {both}")
        if done % 2:
            now = self._measure_now(command, request)
            return Pair(self._measure_base(command, request), now)
        base = self._measure_base(command, request)
        return Pair(base, self._measure_now(command, request))

    def count_work(self, command: Sequence[str], request: WorkRequest) -> WorkProfile | None:
        """Count the work of the other version; None where it has no such test.

        Raises:
            NetpipeError: A session has failed.
        """
        try:
            return self._run_base(counting.count_work, command, request)
        except NoSuchTestError:
            return None

    def _measure_now(self, command: Sequence[str], request: MeasureRequest) -> Measurement:
        request = self.prepare().request_here(request)
        return parent.run_measurement(command, request, progress=LongPhases(self.say))

    def _measure_base(self, command: Sequence[str], request: MeasureRequest) -> Measurement:
        return self._run_base(parent.run_measurement, command, request)

    def _run_base(
        self, run: Callable[..., _Result], command: Sequence[str], request: SessionRequest
    ) -> _Result:
        """Run a session of the other version, by a function such as `run_measurement`."""
        version, folder = self.prepare(), self.config.invocation_params.dir
        moved = self._move_command(version, command, folder)
        request, place = version.request_there(request), version.place(folder)
        try:
            return run(moved, request, place, LongPhases(self.say))
        except (NoSuchTestError, OutOfTimeError):
            raise
        except NetpipeError as error:
            raise SessionError(f"the session of {self.commit.label} failed: {error}") from error

    def _move_command(self, version: Version, command: Sequence[str], folder: Path) -> list[str]:
        _, dash_m, pytest_, *words = command
        moved = [version.python, dash_m, pytest_, *version.move_paths(words, folder)]
        if self.config.pluginmanager.hasplugin("cacheprovider"):
            # Data in this run's cache serve both versions. `mkdir` returns <cache>/d/<name>: the
            # public way to find <cache>.
            with suppress(OSError):  # It cannot be written: each version finds its data itself.
                moved += ["-o", f"cache_dir={self.config.cache.mkdir('netpipe').parents[1]}"]
        return moved


def recorded_commit(baselines: Sequence[Baseline], key: str) -> str:
    """Return the commit that was measured for the latest of the baselines of a device.

    Raises:
        InputError: There is no baseline, or it was recorded from uncommitted changes.
    """
    if not baselines:
        raise InputError(
            "--netpipe-against baseline", "baseline", f"be there for {key}", "none",
            "Record one with --netpipe-record NAME, or name a commit",
        )  # fmt: skip
    baseline = baselines[-1]
    if baseline.dirty:
        raise InputError(
            baseline.path, "commit_info.dirty", "be false, to measure its commit again", "true",
            "Record it again from a commit",
        )  # fmt: skip
    return baseline.commit


def dismiss_machine_alarm(
    result: GateResult, paired: Iterable[GateResult], commit: str, baselines: Iterable[Baseline]
) -> GateResult:
    """Make a comparison with a baseline NOT_COMPARED where the machine has caused its alarm.

    It has where pairs with the commit of that very baseline find the metric no worse.
    """
    stored = result.comparison
    pairs = [pair.comparison for pair in paired if pair.comparison.metric == stored.metric]
    is_code_innocent = any(pair.outcome in NO_WORSE for pair in pairs) and any(
        recorded.name == stored.baseline and not recorded.dirty and recorded.commit == commit
        for recorded in baselines
    )
    if stored.outcome not in ALARMS or not is_code_innocent:
        return result
    # The machine is another one now, of which this is no baseline.
    why_not = "the machine has changed, not the code"
    slow_too = f"and so is its commit {commit[:12]} on this machine now"
    reason = f"{stored.reason}, {slow_too}: {why_not}"
    dismissed = replace(
        stored, outcome=Outcome.NOT_COMPARED, reason=reason, is_open=False, why_not=why_not
    )
    return replace(result, comparison=dismissed, waiver=None)
