"""The CPU time of batches that a thread of the training process makes."""

import threading
import time
from collections.abc import Iterator
from queue import Queue

import pytest

from netpipe.jobs.processes import list_own_threads
from netpipe.measuring import loader_puller
from netpipe.measuring.cpu_balance import CpuBalance
from netpipe.measuring.loader_puller import Puller
from tests.fakes import FakeClock

MAKING_S = 0.01
BATCHES = 10


def compute(cpu_s: float) -> None:
    """Use some CPU seconds in this thread."""
    ends_s = time.thread_time() + cpu_s
    while time.thread_time() < ends_s:
        pass


class Fed:
    """A loader whose thread makes a batch each time it is told to, into a deep buffer."""

    def __init__(self) -> None:
        self.orders, self.made = threading.Semaphore(0), Queue[int]()
        self.ends = False
        self.thread = threading.Thread(target=self._make)

    def order(self, batches: int, *, waits: bool = False) -> None:
        """Let the thread make batches, and wait until they are made if asked."""
        buffered = self.made.qsize()
        self.orders.release(batches)
        while waits and self.made.qsize() < buffered + batches:
            time.sleep(0.001)

    def __iter__(self) -> Iterator[int]:
        self.thread.start()
        self.order(1)
        while True:
            yield self.made.get()

    def _make(self) -> None:
        while True:
            self.orders.acquire()
            if self.ends:
                return
            compute(MAKING_S)
            self.made.put(1)

    def end(self) -> None:
        """End the thread, and wait until the kernel has removed it."""
        self.ends = True
        self.orders.release()
        self.thread.join()
        while self.thread.native_id in list_own_threads():
            time.sleep(0.001)


@pytest.fixture
def fed() -> Iterator[Fed]:
    """A loader whose thread ends with the test."""
    loader = Fed()
    yield loader
    if loader.thread.is_alive():
        loader.end()


def pull(puller: Puller, batches: int = BATCHES) -> None:
    """Pull some batches."""
    for _ in range(batches):
        puller.pull()


def test_batches_that_a_thread_made_before_are_detected(fed: Fed) -> None:
    """Batches out of the buffer cost the loader's thread no CPU time while they are pulled."""
    puller = Puller(lambda: fed, FakeClock())
    balance = CpuBalance(puller, FakeClock())
    for is_made_before in (False, True, False):
        fed.order(BATCHES, waits=is_made_before)
        before = balance.now()
        if not is_made_before:
            fed.order(BATCHES)
            pull(puller)
        pull(puller)
        assert balance.covers(before) is not is_made_before


def test_only_the_threads_of_the_loader_count(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later threads do not count, nor do those of an XLA client; an ended one still does."""
    monkeypatch.setattr(loader_puller, "is_of_xla", lambda _: True)
    puller = Puller(lambda: fed, FakeClock())
    later = threading.Thread(target=compute, args=(10 * MAKING_S,))
    later.start()
    later.join()
    fed.order(1, waits=True)
    used_s = puller.loading_cpu_s()
    assert 2 * MAKING_S <= used_s < 5 * MAKING_S
    fed.end()
    assert puller.loading_cpu_s() == pytest.approx(used_s, abs=MAKING_S)


def test_native_threads_count_unless_xla_is_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that Python does not know is the loader's, but may be XLA's."""
    for is_xla in (False, True):
        monkeypatch.setattr(loader_puller, "is_of_xla", lambda _, is_xla=is_xla: is_xla)
        listed = iter([frozenset[int](), frozenset({threading.get_native_id(), 12345})])
        monkeypatch.setattr(loader_puller, "list_own_threads", lambda listed=listed: next(listed))
        monkeypatch.setattr(loader_puller, "thread_cpu_s", float)
        puller = Puller(lambda: [1, 2, 3], FakeClock())
        native_s = 0 if is_xla else 12345
        assert puller.loading_cpu_s() == threading.get_native_id() + native_s
