"""This version and another one, measured in turns on this machine."""

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import pytest

from netpipe.errors import InputError, NetpipeError, NoSuchTestError, OutOfTimeError, SessionError
from netpipe.gate.baseline import Baseline
from netpipe.gate.comparison import mark_undecided
from netpipe.gate.outcomes import ALARMS, NO_WORSE, Comparison, Outcome
from netpipe.gate.pairs import MAX_PAIRS, MIN_PAIRS, Decision, Pair, decide
from netpipe.measuring.request import MeasureRequest
from netpipe.results.measurement import Measurement
from netpipe.session import parent
from netpipe.suite.gate_results import GateResult
from netpipe.suite.other_version import Version, open_version
from netpipe.suite.time_limit import LongPhases, TimeLimit, limit_s
from netpipe.suite.worktrees import Commit, find_commit

TYPED_VARIABLE: Final = "NETPIPE_AGAINST_TYPED"
"""Holds the ref as the user of `netpipe ab` typed it, where the flag is given its hash."""


def pairs_limit_s(request: MeasureRequest) -> float:
    """Return the seconds that all pairs of a subject may take."""
    return limit_s(request, 2 * MAX_PAIRS)


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
    _other_folders: tuple[str, ...] = ()

    @classmethod
    def from_ref(
        cls, config: pytest.Config, ref: str, extras: str, say: Callable[[str], None]
    ) -> "Against":
        """Find the version that a ref names, without checking it out.

        Raises:
            InputError: There is no such commit, or the project is in no git checkout.
        """
        typed = os.environ.get(TYPED_VARIABLE, "")
        commit = find_commit(config.rootpath, ref, "--netpipe-against", typed)
        return cls(commit, config, extras, say)

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
            self._other_folders = self._version.checkout.other_folders()
        return self._version

    def all_pairs(self) -> Iterator[Pair]:
        """Yield every pair, subject by subject."""
        return chain.from_iterable(self.pairs.values())

    def compare(
        self, quantity: str, key: Hashable, command: Sequence[str], request: MeasureRequest
    ) -> tuple[Comparison, Measurement] | None:
        """Measure both versions in turns until the pairs decide on a quantity.

        Earlier pairs of the same key count too. Returns the comparison, and the last session of
        this version; None where the other version has no such test.

        Raises:
            NetpipeError: A session of either version has failed.
        """
        decision: Decision
        pairs = self.pairs.setdefault(key, [])
        limit = self._limits.setdefault(key, TimeLimit(pairs_limit_s(request)))
        while not pairs or (decision := decide(quantity, pairs)).is_open:
            measure = partial(self._measure_pair, len(pairs), command)
            try:
                pairs.append(limit.run(request, measure, sessions=2))
            except NoSuchTestError:
                return None
            except OutOfTimeError as error:
                if not pairs:
                    raise
                return mark_undecided(decision.comparison, error), pairs[-1].now
        return decision.comparison, pairs[-1].now

    def _measure_pair(self, done: int, command: Sequence[str], request: MeasureRequest) -> Pair:
        """Measure each version once; which goes first changes from pair to pair."""
        both = f"{self.commit.label} and this version"
        self.say(f"pair {done + 1} of {MIN_PAIRS} to {MAX_PAIRS}: {both}")
        if done % 2:
            now = self._measure_now(command, request)
            return Pair(self._measure_base(command, request), now)
        base = self._measure_base(command, request)
        return Pair(base, self._measure_now(command, request))

    def _measure_now(self, command: Sequence[str], request: MeasureRequest) -> Measurement:
        here, there = self.commit.repository, self.prepare().checkout.folder
        others = [*self._other_folders, str(there)]
        not_from = tuple(folder for folder in others if Path(folder).resolve() != here)
        request = replace(request, code_from=str(here), not_from=not_from)
        return parent.run_measurement(command, request, progress=LongPhases(self.say))

    def _measure_base(self, command: Sequence[str], request: MeasureRequest) -> Measurement:
        version, folder = self.prepare(), self.config.invocation_params.dir
        _, dash_m, pytest_, *words = command
        moved = [version.python, dash_m, pytest_, *version.move_paths(words, folder)]
        if self.config.pluginmanager.hasplugin("cacheprovider"):
            # Data in this run's cache serve both versions. `mkdir` returns <cache>/d/<name>: the
            # public way to find <cache>.
            moved += ["-o", f"cache_dir={self.config.cache.mkdir('netpipe').parents[1]}"]
        code_from = str(version.checkout.folder)
        request = replace(request, code_from=code_from, not_from=self._other_folders)
        try:
            return parent.run_measurement(
                moved, request, version.place(folder), LongPhases(self.say)
            )
        except (NoSuchTestError, OutOfTimeError):
            raise
        except NetpipeError as error:
            raise SessionError(f"the session of {self.commit.label} failed: {error}") from error


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
    stored, decisive = result.comparison, result.comparison.decisive
    if decisive is None or stored.outcome not in ALARMS:
        return result
    found = [pair.comparison.outcome for pair in paired if pair.comparison.metric == stored.metric]
    recorded = next((base for base in baselines if base.name == decisive.baseline), None)
    if recorded is None or recorded.dirty or recorded.commit != commit:
        return result
    if not any(outcome in NO_WORSE for outcome in found):
        return result
    # The machine is another one now, of which this is no baseline.
    why_not = "the machine has changed, not the code"
    slow_too = f"and so is its commit {commit[:12]} on this machine now"
    dismissed = replace(
        decisive,
        outcome=Outcome.NOT_COMPARED,
        reason=f"{stored.reason}, {slow_too}: {why_not}",
        is_open=False,
        why_not=why_not,
    )
    return replace(result, comparison=Comparison.from_metrics([dismissed]), waiver=None)
