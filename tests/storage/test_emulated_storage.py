"""The times at which a storage answers, in one process and in several."""

import fcntl
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from netpipe.device.shared_storages import list_shared_storages
from netpipe.errors import SessionError
from netpipe.storage import emulated_storage
from netpipe.storage.emulated_storage import Service, share
from netpipe.storage.profiles import parse_storage
from tests.storage.readers import preset, read, storage

# Earlier tests of this process may have imported jax, which warns about every fork.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")

MB = 1_000_000
LIMITED = "object-store,concurrent=1,latency=1s,tail=0s,connection=1GB/s,rate=1000000/s"


def test_half_of_the_latencies_are_below_the_median() -> None:
    """One latency in a hundred is above the tail."""
    seen = read(storage(latency_s=0.03, tail_latency_s=0.2), 20_000)
    assert seen.percentile(50) == pytest.approx(0.03, rel=0.05)
    assert seen.percentile(99) == pytest.approx(0.2, rel=0.1)


def test_a_mount_has_its_published_mean() -> None:
    """Random reads of 128 KiB through Cloud Storage FUSE take 21.8 ms on average."""
    seen = read(preset("bucket-mount"), 20_000, size=128 << 10)
    assert sum(seen.took_s) / len(seen.took_s) == pytest.approx(0.0218, rel=0.03)


def test_a_connection_has_its_bandwidth() -> None:
    """A large read takes its latency plus the time of its bytes, whatever other reads do."""
    one = storage(latency_s=0.5, connection_bytes_per_s=50 * MB)
    seen = read(one, 64, readers=8, size=100 * MB)
    assert seen.took_s == pytest.approx([2.5] * 64)


def test_all_reads_together_have_the_total_bandwidth() -> None:
    """Many readers share the total bandwidth, and one reader gets that of a connection."""
    limits = {"connection_bytes_per_s": 50e6, "total_bytes_per_s": 200e6}
    for readers, bytes_per_s in ((1, 50e6), (2, 100e6), (4, 200e6), (16, 200e6)):
        seen = read(storage(**limits), 400, readers, size=MB)
        assert seen.per_s * MB == pytest.approx(bytes_per_s, rel=0.05)


def test_further_reads_wait_for_a_connection() -> None:
    """Sixteen readers with four connections are as fast as four."""
    for readers, per_s in ((1, 10), (4, 40), (16, 40)):
        seen = read(storage(latency_s=0.1, max_concurrent_reads=4), 400, readers)
        assert seen.per_s == pytest.approx(per_s, rel=0.05)
    assert max(seen.took_s) == pytest.approx(0.4)


def test_a_rate_without_retries_lets_reads_wait_their_turn() -> None:
    """No read is refused; reads follow each other at the rate."""
    seen = read(storage(latency_s=0.1, reads_per_s=50), 500, readers=20)
    assert seen.refused == 0
    assert seen.per_s == pytest.approx(50, rel=0.05)


def test_a_rate_with_retries_refuses_and_costs_more() -> None:
    """Refused reads back off; the rate is an upper limit, and some reads take long."""
    limits = {"latency_s": 0.01, "reads_per_s": 50.0}
    patient = read(storage(**limits), 2000, readers=20)
    refused = read(storage(**limits, retry_s=0.1), 2000, readers=20)
    assert refused.refused > 100
    assert 0.5 * patient.per_s < refused.per_s <= 1.05 * patient.per_s
    assert refused.percentile(99) > 2 * patient.percentile(99)


def test_a_backoff_is_drawn_and_doubles() -> None:
    """The limit of the backoff doubles five times, and refused reads do not return together."""
    one = storage(failure_fraction=0.9, retry_s=1.0)
    for attempt, longest_s in ((0, 1), (1, 2), (3, 8), (5, 32), (9, 32)):
        drawn = [one.request(0, 0.0, attempt) for _ in range(400)]
        backoffs_s = [over_s for over_s, is_served in drawn if not is_served]
        assert 0.9 * longest_s < max(backoffs_s) < longest_s
        assert sum(backoffs_s) / len(backoffs_s) == pytest.approx(longest_s / 2, rel=0.15)
        assert len(set(backoffs_s)) == len(backoffs_s)


def test_a_failed_read_is_requested_again() -> None:
    """The given share of the requests fails, each after its latency."""
    seen = read(storage(latency_s=0.1, failure_fraction=0.25), 4000)
    assert seen.refused / (seen.refused + 4000) == pytest.approx(0.25, abs=0.03)
    assert seen.over_s == pytest.approx(0.1 * (4000 + seen.refused))


def test_a_cold_cache_holds_what_was_read_first() -> None:
    """The cache holds the first records read, as many as fit; others are always read."""
    cold = storage(cache_bytes=10)
    assert [cold.read_cached(str(record), 4) for record in range(4)] == [False] * 4
    assert [cold.read_cached(str(record), 4) for record in range(4)] == [True, True, False, False]


def test_a_warm_cache_holds_a_share_from_the_start() -> None:
    """The warm records are always the same."""
    warm = storage(warm_fraction=0.3)
    held = [record for record in range(5000) if warm.read_cached(str(record), 1)]
    assert len(held) / 5000 == pytest.approx(0.3, abs=0.03)
    assert held == [record for record in range(5000) if warm.read_cached(str(record), 1)]


def test_a_name_is_one_storage() -> None:
    """A process has one storage per name, and its copies have the same limits."""
    one = share(LIMITED)
    copy = pickle.loads(pickle.dumps(one))
    assert one is share(LIMITED)
    assert one is not share("network-disk")
    assert (one.request(0, 0.0)[0], copy.request(0, 0.0)[0]) == (1.0, 2.0)
    assert list_shared_storages() == {LIMITED: one.path, "network-disk": share("network-disk").path}


def test_a_storage_whose_process_has_ended_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stale entry in the environment leads to a new storage."""
    monkeypatch.setenv("NETPIPE_STORAGES", f"{LIMITED} /proc/0/fd/3")
    assert list_shared_storages() == {}
    assert share(LIMITED).request(0, 0.0) == (1.0, True)


def test_a_copy_whose_process_has_ended_is_refused() -> None:
    """The error names the storage and the remedy."""
    with pytest.raises(SessionError, match=rf"{LIMITED}: .* found /proc/0/fd/3: No such file .*"):
        Service(parse_storage(LIMITED), "/proc/0/fd/3")


def _request(one: Service | None, pipe: "Connection[Any, Any]") -> None:
    pipe.send((one or share(LIMITED)).request(0, 0.0))


@pytest.mark.parametrize("is_sent", [True, False])
def test_spawned_and_forked_processes_share_the_limits(is_sent: bool) -> None:
    """A storage is shared if it is sent to a process, or if its name is used again there."""
    one = share(LIMITED)
    seen = [one.request(0, 0.0)[0]]
    for method in ("spawn", "spawn", "fork"):
        context = multiprocessing.get_context(method)
        here, there = context.Pipe()
        process = context.Process(  # type: ignore[attr-defined]
            target=_request, args=(one if is_sent else None, there)
        )
        process.start()
        seen.append(here.recv()[0])
        process.join()
    assert seen == [1.0, 2.0, 3.0, 4.0]


def test_threads_share_the_limits() -> None:
    """Each request gets its own turn, even with several threads."""
    one, seen = storage(latency_s=1.0, max_concurrent_reads=1), list[float]()
    threads = [
        threading.Thread(target=lambda: seen.extend(one.request(0, 0.0)[0] for _ in range(200)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [float(turn) for turn in range(1, 801)]
    with one._locked_state():
        assert not emulated_storage._LOCK.acquire(blocking=False)


def _in_a_fork(run: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # fail instead of hanging
        run()
        os._exit(0)
    return child


def test_a_killed_process_leaves_no_lock() -> None:
    """A worker that is killed while it holds the lock does not block the others."""
    one = storage(latency_s=1.0, max_concurrent_reads=1)
    is_locked, told = os.pipe()

    def hold() -> None:
        with one._locked_state():
            os.write(told, b"!")
            signal.pause()

    child = _in_a_fork(hold)
    assert os.read(is_locked, 1) == b"!"
    with Path(one.path).open("r+b") as file, pytest.raises(BlockingIOError):
        fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert one.request(0, 0.0) == (1.0, True)


def test_forked_processes_draw_latencies_of_their_own() -> None:
    """Two workers draw different latencies."""
    one = storage(latency_s=0.03, tail_latency_s=0.2)
    ends = [os.pipe() for _ in range(2)]
    for _, write in ends:
        os.waitpid(_in_a_fork(lambda: os.write(write, repr(read(one, 1)).encode())), 0)  # noqa: B023
    assert len({os.read(end, 1000) for end, _ in ends}) == 2


def test_a_process_that_is_forked_under_the_lock_goes_on() -> None:
    """A thread that holds the lock during a fork does not leave the child's lock held."""
    one = storage(latency_s=1.0)
    with emulated_storage._LOCK:
        child = _in_a_fork(lambda: print(one.request(0, 0.0)))  # noqa: T201  # else it hangs
    assert os.waitpid(child, 0)[1] == 0
