"""The user's functions in sampled stacks."""

import json
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, FrameType, SimpleNamespace
from typing import cast

import pytest

import netpipe
from netpipe.diagnosis.experiments import stage_times
from netpipe.diagnosis.experiments.stage_times import function_names, sampled, users_path
from netpipe.measuring.loader_puller import Puller

HARNESS = netpipe.__file__.replace("__init__.py", "measuring/loader_puller.py")
SITE = "/venv/lib/python3.11/site-packages/numpy/core.py"
JSON, QUEUE = json.__file__, queue.__file__


def stack(*places: tuple[str, str]) -> FrameType:
    """Return the innermost frame of functions and their files, given from the outermost on."""
    frame = None
    for line, (function, file) in enumerate(places, 1):
        code = SimpleNamespace(
            co_filename=file, co_qualname=function, co_name=function, co_firstlineno=line
        )
        frame = SimpleNamespace(f_code=cast(CodeType, code), f_lineno=line, f_back=frame)
    return cast(FrameType, frame)


def seen(*places: tuple[str, str]) -> tuple[str, ...]:
    """Return the functions of a stack."""
    return function_names(users_path(stack(*places)))


def test_a_path_begins_with_the_outermost_function() -> None:
    """Each function has its file and line."""
    path = users_path(stack(("load", "mine.py"), ("decode", "mine.py")))
    assert function_names(path) == ("load", "decode")
    assert [(code.co_filename, code.co_firstlineno) for code in path] == [
        ("mine.py", 1),
        ("mine.py", 2),
    ]


def test_code_of_others_is_left_out() -> None:
    """The harness, the standard library and other libraries are not the user's code."""
    assert seen(
        ("run", HARNESS), ("load", "mine.py"), ("loads", JSON), ("array", SITE), ("<string>", "<x>")
    ) == ("load",)


def test_a_library_counts_without_code_of_the_user() -> None:
    """A loader may be a library's."""
    assert seen(("run", HARNESS), ("read", SITE), ("loads", JSON), ("array", SITE)) == (
        "read",
        "array",
    )


@pytest.mark.parametrize(
    "file", [threading.__file__, QUEUE, JSON.replace("json/__init__", "selectors")]
)
def test_a_thread_that_waits_for_another_has_no_path(file: str) -> None:
    """The path is empty if the innermost code is where threads wait."""
    assert seen(("load", "mine.py"), ("get", file)) == ()
    assert seen(("load", "mine.py"), ("get", file), ("callback", "mine.py")) == ("load", "callback")


def test_a_restart_has_no_path() -> None:
    """The harness calls the factory again when an epoch ends, which is not loading."""
    restart = SimpleNamespace(f_code=Puller.restart.__code__, f_back=stack(("run", HARNESS)))
    code = SimpleNamespace(co_filename="mine.py", co_qualname="make_loader")
    frame = SimpleNamespace(f_code=code, f_back=restart)
    assert users_path(cast(FrameType, frame)) == ()


def test_no_stack_has_no_functions() -> None:
    """A thread may have ended."""
    assert users_path(None) == ()


class Threads:
    """Two threads: one computes in a user's function, the other waits in a queue."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.spins = threading.Event()
        self._items: queue.Queue[int] = queue.Queue()
        self._threads = [
            threading.Thread(target=self.works),
            threading.Thread(target=self.waits),
        ]

    def works(self) -> None:
        """Compute until it is over."""
        self.spins.set()
        while not self.over.is_set():
            self.spins.is_set()

    def waits(self) -> None:
        """Wait in a queue until it is over."""
        self._items.get()

    def __enter__(self) -> "Threads":
        for thread in self._threads:
            thread.start()
        self.spins.wait()
        while not self._items.not_empty._waiters:  # type: ignore[attr-defined]
            threading.Event().wait(0.001)
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._items.put(1)
        for thread in self._threads:
            thread.join()


def until(found: Callable[[], bool]) -> None:
    """Wait until a condition holds, for at most 10 s."""
    for _ in range(1_000):
        if found():
            return
        threading.Event().wait(0.01)


def test_computing_threads_are_sampled() -> None:
    """A thread that waits in a queue is not."""
    with Threads(), sampled() as found:
        until(lambda: sum(found.cpu_s.values()) > 0)
    names = {name for path in found.wall_s for name in function_names(path)}
    assert "Threads.works" in names
    assert "Threads.waits" not in names
    assert set(found.cpu_s) == set(found.wall_s)


@pytest.mark.parametrize("fails", [False, True])
def test_sampling_restores_the_process(fails: bool) -> None:
    """The sampling thread ends, and the switch interval is as before."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    try:
        with suppress(OSError), sampled():
            assert sys.getswitchinterval() == pytest.approx(stage_times._SWITCH_S)
            if fails:
                raise OSError("gone")
        assert sys.getswitchinterval() == pytest.approx(0.004)
    finally:
        sys.setswitchinterval(before_s)
    assert "netpipe-stacks" not in {thread.name for thread in threading.enumerate()}
