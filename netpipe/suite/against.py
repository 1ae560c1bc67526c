"""This version and another one, measured in turns on this machine."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path

import pytest

from netpipe.errors import NetpipeError, NoSuchTestError, OutOfTimeError, SessionError
from netpipe.gate.comparison import Comparison, undecided
from netpipe.gate.pairs import MAX_PAIRS, MIN_PAIRS, Decision, Pair, decide
from netpipe.measuring.request import MeasureRequest
from netpipe.results.measurement import Measurement
from netpipe.session import parent
from netpipe.suite.other_version import Version, version_of
from netpipe.suite.time_limit import LongPhases, TimeLimit, limit_s
from netpipe.suite.worktrees import Commit, named_commit


def pairs_limit_s(request: MeasureRequest) -> float:
    """Return the seconds that all pairs of a subject may take."""
    return limit_s(request, 2 * MAX_PAIRS)


@dataclass
class Against:
    """Another version, and what was measured in turns with this one.

    Attributes:
        commit: The other version.
        config: This run's.
        extras: The extras that an environment of its own gets.
        say: Tells the user what is going on.
        pairs: What was measured, by subject.
    """

    commit: Commit
    config: pytest.Config
    extras: str
    say: Callable[[str], None]
    pairs: dict[Hashable, list[Pair]] = field(default_factory=dict)
    _limits: dict[Hashable, TimeLimit] = field(default_factory=dict)
    _version: Version | None = None
    _others: tuple[str, ...] = ()
    _made: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def named(
        cls, config: pytest.Config, ref: str, extras: str, say: Callable[[str], None]
    ) -> "Against":
        """Return the version that a ref names; nothing is checked out so far.

        Raises:
            InputError: There is no such commit, or the project lies in no git checkout.
        """
        commit = named_commit(config.rootpath, ref, "--netpipe-against")
        return cls(commit, config, extras, say)

    @property
    def ref(self) -> str:
        """The other version, as the user named it."""
        return self.commit.ref

    def prepare(self) -> None:
        """Check the other version out and find its environment, once.

        Raises:
            InputError: It cannot be checked out, or its environment cannot be made.
        """
        if self._version is None:
            made = version_of(self.commit, self.config.rootpath.resolve(), self.extras, self.say)
            self._version = self._made.enter_context(made)
            self._others = self._version.checkout.others()

    def remove(self) -> None:
        """Remove the other version from this machine."""
        self._made.close()

    def every_pair(self) -> Iterator[Pair]:
        """Give all that was measured in turns, subject by subject."""
        return chain.from_iterable(self.pairs.values())

    def compare(
        self, quantity: str, key: Hashable, command: Sequence[str], request: MeasureRequest
    ) -> tuple[Comparison, Measurement] | None:
        """Measure both versions in turns until the pairs decide on a quantity.

        Args:
            quantity: A key of `GATED`.
            key: Tells the subject; what was measured of it for another quantity counts too.
            command: What a session of it runs here.
            request: What the session is asked for.

        Returns:
            What they come to, and the last session of this version; None where the other version
            has no such test.

        Raises:
            NetpipeError: A session of either version has failed.
        """
        decision: Decision
        pairs = self.pairs.setdefault(key, [])
        limit = self._limits.setdefault(key, TimeLimit(pairs_limit_s(request)))
        while not pairs or (decision := decide(quantity, pairs)).is_open:
            measure = partial(self._pair, len(pairs), command)
            try:
                pairs.append(limit.run(request, measure, sessions=2))
            except NoSuchTestError:
                return None
            except OutOfTimeError as error:
                if not pairs:
                    raise
                return undecided(decision.comparison, error), pairs[-1].now
        return decision.comparison, pairs[-1].now

    def _pair(self, done: int, command: Sequence[str], request: MeasureRequest) -> Pair:
        """Measure one of each; which goes first changes from pair to pair."""
        self.say(f"pair {done + 1} of {MIN_PAIRS} to {MAX_PAIRS}: {self.ref} and this version")
        if done % 2:
            now = self._now(command, request)
            return Pair(self._base(command, request), now)
        base = self._base(command, request)
        return Pair(base, self._now(command, request))

    def _now(self, command: Sequence[str], request: MeasureRequest) -> Measurement:
        here = self.commit.repository
        others = [*self._others, str(self._there.checkout.folder)]
        asked = replace(
            request,
            code_from=str(here),
            not_from=tuple(one for one in others if Path(one).resolve() != here),
        )
        return parent.run_measurement(command, asked, progress=LongPhases(self.say))

    def _base(self, command: Sequence[str], request: MeasureRequest) -> Measurement:
        there = self._there
        _, dash_m, pytest_, *words = command
        folder = self.config.invocation_params.dir
        moved = [there.environment.python, dash_m, pytest_, *there.moved(words, folder)]
        moved += self._same_cache()
        asked = replace(request, code_from=str(there.checkout.folder), not_from=self._others)
        try:
            return parent.run_measurement(moved, asked, there.place(folder), LongPhases(self.say))
        except (NoSuchTestError, OutOfTimeError):
            raise
        except NetpipeError as error:
            raise SessionError(f"the session of {self.ref} failed: {error}") from error

    def _same_cache(self) -> list[str]:
        """Return the flags for this run's cache: data that tests keep there serve both versions."""
        if not self.config.pluginmanager.hasplugin("cacheprovider"):
            return []
        # `mkdir` returns <cache>/d/<name>: the public way to learn of <cache>.
        return ["-o", f"cache_dir={self.config.cache.mkdir('netpipe').parents[1]}"]

    @property
    def _there(self) -> Version:
        assert self._version is not None, "prepare() comes first"
        return self._version
