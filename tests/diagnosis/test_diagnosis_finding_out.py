"""What a session does to a loader."""

from collections.abc import Iterator
from typing import Any

import pytest

from netpipe.diagnosis import finding_out
from netpipe.diagnosis.finding_out import FindingOut
from netpipe.diagnosis.turns import Turns
from netpipe.harness.clock import MonotonicClock
from netpipe.harness.errors import SessionError
from netpipe.harness.watch import UNWATCHED
from tests.diagnosis import loaders
from tests.diagnosis.diagnosed import interval, turns


def looking(loader: Any, cores: int = 2) -> FindingOut:
    """Return what looks into a loader."""
    return FindingOut(loader, "a:b", None, cores, 1.0, MonotonicClock(), UNWATCHED)


def sides(
    monkeypatch: pytest.MonkeyPatch, loader: Any, cores: int = 2
) -> tuple[set[str], FindingOut]:
    """Return which sides of the whole loader are measured."""
    asked: list[str] = []

    def in_turns(measured: Any, *_: object) -> Turns:
        asked.extend(measured)
        return turns(as_it_is=0.01)

    monkeypatch.setattr(finding_out, "in_turns", in_turns)
    found = looking(loader, cores)
    found._batch_s = 0.01
    found._whole()
    return set(asked), found


def test_a_grain_loader_is_tried_with_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has none: one worker tells what more would give."""
    asked, _ = sides(monkeypatch, loaders.plain)
    assert asked == {"as-it-is", "one-worker", "half-the-cores"}


def test_workers_are_tried_with_nothing_to_send(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has workers: what they send may be what limits."""
    asked, found = sides(monkeypatch, loaders.with_worker)
    assert asked == {"as-it-is", "tiny-payload", "half-the-cores"}
    assert found._sender() == "ProcessPrefetch"


def test_plain_python_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither workers nor a payload can be given to it; one core has no half."""
    asked, found = sides(monkeypatch, loaders.raising_late, cores=1)
    assert asked == {"as-it-is"}
    assert found._verified([], (), interval(0.01))[1].startswith("only a Grain pipeline")


def test_what_promises_nothing_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is told."""
    _, found = sides(monkeypatch, loaders.plain)
    assert found._verified([], (), interval(0.01)) == (
        None,
        "no change that can be tried promises anything",
    )


def test_a_loader_that_fails_as_it_is_ends_it() -> None:
    """All else is held against it: without it there is no diagnosis, and the reason is told."""
    ends = iter([iter([1, 2, 3]), iter([4])])

    def loader() -> Iterator[int]:
        yield from next(ends)
        raise OSError("disk gone")

    with pytest.raises(SessionError, match="disk gone"):
        finding_out._with("as-it-is", Turns((), {"as-it-is": "OSError: disk gone"}))
    with pytest.raises(SessionError, match="after 3 batches: OSError: disk gone"):
        looking(loader).findings()


def test_turns_that_have_what_counts_are_given_back() -> None:
    """Others may have failed."""
    made = turns(as_it_is=0.01)
    assert finding_out._with("as-it-is", made) is made
