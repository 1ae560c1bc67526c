"""Comparison of this version with another one, side by side on this machine."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Final

import pytest

from netpipe.duets.duet_request import DuetRequest
from netpipe.duets.parent import Request, Side, name_failures
from netpipe.errors import InputError, NoSuchTestError
from netpipe.gate.baseline import Baseline
from netpipe.gate.duets import MAX_DUETS, MIN_DUETS, Duet, decide_in_duets
from netpipe.gate.metrics import GATED
from netpipe.gate.outcomes import ALARMS, NO_WORSE, Comparison, Outcome
from netpipe.git import GitError, git
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.other_version import Version, open_version
from netpipe.plugin.gate_results import GateResult
from netpipe.plugin.sessions import Jobs, LongPhases, TimeLimit, limit_s
from netpipe.results.work_profile import WorkProfile
from netpipe.work_counts.reproducible_counts import WorkRequest
from netpipe.worktrees import Commit

MAX_DUET_SESSIONS: Final = len(GATED) * MAX_DUETS
"""The most duet sessions per subject; each one times both versions at once."""


@dataclass
class Against:
    """Another version, and its duets with this version so far, by subject and quantity.

    Attributes:
        extras: Extras to install if the other version needs an environment of its own.
    """

    commit: Commit
    config: pytest.Config
    extras: str
    jobs: Jobs
    report_progress: Callable[[str], None]
    draw_progress: Callable[[str], None]
    duets: dict[tuple[Hashable, str], list[Duet]] = field(default_factory=dict)
    _limits: dict[Hashable, TimeLimit] = field(default_factory=dict)
    _version: Version | None = None

    @cached_property
    def has_no_tests(self) -> bool:
        """Whether Python files mention netpipe in this version but not in the other one."""

        def finds(*words: str) -> bool:
            try:
                git(self.commit.repository, "grep", "--quiet", *words, "--", "*.py")
            except GitError as error:
                return bool(str(error))  # Without a match, git prints no error.
            return True

        return finds("--untracked", "netpipe") and not finds("netpipe", self.commit.sha)

    def prepare(self) -> Version:
        """Return the other version, checked out once per run; raise an InputError if that fails."""
        if self._version is None:
            opened = ExitStack()
            self.config.add_cleanup(opened.close)
            root = self.config.rootpath.resolve()
            other = open_version(self.commit, root, self.extras, self.report_progress)
            self._version = opened.enter_context(other)
        return self._version

    def compare(
        self, quantity: str, key: Hashable, command: Sequence[str], request: MeasureRequest,
        is_waived: Callable[[Comparison], bool],
    ) -> Comparison | None:  # fmt: skip
        """Time both versions side by side until the duets decide on a quantity.

        Earlier duets of the same key and quantity also count. Returns None if the other version
        does not have the test.

        Raises:
            NetpipeError: A session of either version has failed.
        """
        if self.has_no_tests:
            return None
        duets = self.duets.setdefault((key, quantity), [])
        limit = self._limits.setdefault(key, TimeLimit(limit_s(request, MAX_DUET_SESSIONS)))
        # This version already has a trace, and the other version does not need one.
        settings = {**vars(request), "kind": "duet", "trace": "", "trace_name": ""}
        timed = DuetRequest(quantity=quantity, **settings)

        def run_next() -> Duet:
            both = f"{self.commit.label} and this version"
            number = len(duets) + 1
            of = f"of {MIN_DUETS}" if number <= MIN_DUETS else f"of at most {MAX_DUETS}, to be sure"
            self.report_progress(f"duet {number} {of}{limit.remark}: {both}")
            return limit.run(timed, partial(self._run_duet, command))

        try:
            return decide_in_duets(quantity, duets, run_next, is_waived)
        except NoSuchTestError:
            return None

    def count_work(
        self, command: Sequence[str], request: WorkRequest, **seeds: Any
    ) -> WorkProfile | None:
        """Return the counted work of the other version; None if it does not have the test.

        Raises:
            NetpipeError: A session has failed.
        """
        if self.has_no_tests:
            return None
        self.report_progress(f"counting the work of {self.commit.label}")
        side = self._other_side(command, request)
        progress = LongPhases(self.report_progress, self.draw_progress)
        try:
            with name_failures(side.name):
                return self.jobs.count_work(
                    side.command, side.request, side.environment, progress, **seeds
                )
        except NoSuchTestError:
            return None
        finally:
            self.draw_progress("")

    def _run_duet(self, command: Sequence[str], request: DuetRequest) -> Duet:
        here = self.prepare().request_here(request)
        progress = LongPhases(self.report_progress, self.draw_progress)
        now = Side("this version", command, here, progress=progress)
        try:
            return self.jobs.run_duet(self._other_side(command, request), now)
        finally:
            self.draw_progress("")

    def _other_side(self, command: Sequence[str], request: Request) -> Side[Request]:
        version, folder = self.prepare(), self.config.invocation_params.dir
        _, dash_m, pytest_, *words = command
        moved = [version.python, dash_m, pytest_, *version.move_paths(words, folder)]
        if self.config.pluginmanager.hasplugin("cacheprovider"):
            # Both versions share the data in this run's cache. The public way to find <cache> is
            # `mkdir`, which returns <cache>/d/<name>.
            with suppress(OSError):  # Without a writable cache, each version finds its own data.
                moved += ["-o", f"cache_dir={self.config.cache.mkdir('netpipe').parents[1]}"]
        there = version.request_there(request)
        return Side(self.commit.label, moved, there, version.place(folder))


def recorded_commit(baselines: Sequence[Baseline], key: str) -> str:
    """Return the commit of the latest baseline; raise an InputError if it is missing or dirty."""
    if not baselines:
        raise InputError(
            "--netpipe-against baseline", "baseline", f"exist for {key}", "none",
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
    result: GateResult, duets: Iterable[GateResult], commit: str, baselines: Iterable[Baseline]
) -> GateResult:
    """Return a result, changed to NOT_COMPARED if the machine and not the code caused its alarm.

    The machine is the cause if duets with the baseline's commit find that the metric is no worse.
    """
    stored = result.comparison
    found = [duet.comparison for duet in duets if duet.comparison.metric == stored.metric]
    is_code_innocent = any(comparison.outcome in NO_WORSE for comparison in found) and any(
        recorded.name == stored.baseline and not recorded.dirty and recorded.commit == commit
        for recorded in baselines
    )
    if stored.outcome not in ALARMS or not is_code_innocent:
        return result
    # The machine has changed, so the baseline no longer applies.
    slow_too = f"and so is its commit {commit[:12]} on this machine now"
    reason = f"{stored.reason}, {slow_too}: the machine has changed, not the code"
    dismissed = replace(stored, outcome=Outcome.NOT_COMPARED, reason=reason, is_open=False)
    return replace(result, comparison=dismissed, waiver=None)
