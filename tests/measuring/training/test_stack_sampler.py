"""The trainer's line at which the main thread is, whatever that line called."""

import sys
import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from netpipe import clock
from netpipe.measuring.training import stack_sampler
from netpipe.measuring.training.stack_sampler import StackSampler, find_trainers_line

HERE = str(Path(__file__))


def line_of(called: Callable[[Callable[[], None]], object]) -> tuple[str, int] | None:
    """Return the trainer's line while `called` runs its argument."""
    seen: list[tuple[str, int] | None] = []
    called(lambda: seen.append(find_trainers_line(outside(sys._getframe()))))
    return seen[0]


def outside(frame: FrameType) -> FrameType | None:
    """Skip the frames of the look-up itself."""
    return frame.f_back


def test_the_innermost_line_of_the_trainer_is_found() -> None:
    """The line is that of the call, with its file."""

    def train(look: Callable[[], None]) -> None:
        look()

    found = line_of(train)
    assert found == (HERE, train.__code__.co_firstlineno + 1)


def test_frames_of_numpy_and_python_are_skipped() -> None:
    """The search continues to the trainer's own line."""

    def train(look: Callable[[], None]) -> None:
        np.apply_along_axis(lambda row: ran(look, row), 0, np.zeros(1))

    def ran(look: Callable[[], None], row: np.ndarray) -> np.ndarray:
        look()
        return row

    assert line_of(train) == (HERE, ran.__code__.co_firstlineno + 1)


def test_no_line_is_found_inside_the_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line below a call of the harness, such as the step's, is the trainer's."""
    monkeypatch.setattr(stack_sampler, "HARNESS_FOLDERS", (HERE,))
    assert line_of(lambda look: look()) is None
    assert find_trainers_line(None) is None


def test_the_clock_is_the_harness_s_own() -> None:
    """A call of the clock by the instruments is not the trainer's line."""
    assert line_of(called_in(str(clock.__file__))) is None


def called_in(file: str) -> Callable[[Callable[[], None]], None]:
    """Return a function of another file that calls its argument."""
    names: dict[str, Any] = {}
    exec(compile("def call(called):\n    called()", file, "exec"), names)
    call: Callable[[Callable[[], None]], None] = names["call"]
    return call


def test_code_of_other_packages_counts_when_there_is_no_other() -> None:
    """An installed trainer counts if the harness called it, but not before the trainer's file."""
    installed = called_in("/somewhere/site-packages/trainer.py")
    harness = called_in(str(Path(stack_sampler.__file__).with_name("training_loop.py")))
    assert line_of(lambda look: harness(lambda: installed(look))) is not None

    def by_the_harness(look: Callable[[], None]) -> None:
        harness(partial(installed, look))

    assert line_of(by_the_harness) == ("/somewhere/site-packages/trainer.py", 2)
    assert line_of(installed) == (HERE, line_of.__code__.co_firstlineno + 3)


def test_only_kept_samples_count() -> None:
    """Samples before an `end` that does not count are dropped; samples are weighted by time."""
    sampler = StackSampler()
    forgotten: list[Any] = [(("a.py", 1), 0.001, 0.0)] * 9
    kept: list[Any] = [
        *[(None, 0.001, 0.0)] * 6,
        *[(("a.py", 2), 0.001, 0.0)] * 2,
        (("a.py", 2), 0.004, 0.003),
        ((HERE, 1), 0.003, 0.003),
    ]
    for looks, counts in [(forgotten, False), (kept, True)]:
        sampler.begin()
        sampler._current = looks
        sampler.end(counts=counts)
    first, second = sampler.lines()
    assert (first.file, first.line, first.code) == ("a.py", 2, "")
    assert (first.fraction, first.working_fraction) == pytest.approx((0.4, 0.5))
    assert (second.line, second.working_fraction) == (1, 1.0)
    assert second.fraction == pytest.approx(0.2)
    assert second.code == Path(HERE).read_text().splitlines()[0]


def test_a_thread_that_waits_is_seen_where_it_waits() -> None:
    """The sampler finds the waiting line."""
    seen, looks = threading.Event(), count()

    def note(frame: FrameType | None) -> tuple[str, int] | None:
        line = find_trainers_line(frame)
        # The sampler keeps a line after this look at it, so only the second look proves that.
        if line is not None and next(looks):
            seen.set()
        return line

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack_sampler, "find_trainers_line", note)
        with StackSampler() as sampler:
            sampler.begin()
            assert seen.wait(30)
            sampler.end(counts=True)
    assert sampler.lines()[0].file == HERE
    assert sampler.lines()[0].working_fraction < 1.0
    assert sampler.lines()[0].code == "assert seen.wait(30)"
