"""One run: start a loader, wait for its steady state, pull it flat out and count its tokens."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Final

from netpipe.clock import Clock
from netpipe.errors import MisuseError
from netpipe.measuring.loader_puller import LoaderFactory, Puller, close_with_timeout
from netpipe.session.footprint import bytes_read, read_between, read_memory
from netpipe.session.heartbeat import UNWATCHED, Watch
from netpipe.throughput.figures import Counted, Tally, count_tokens

_MEMORY_S: Final = 1.0
# Looks of this part of the measured time warm the loader up, until two in a row agree.
_LOOK_FRACTION: Final = 0.125
_AGREEMENT: Final = 0.1


def run(
    loader: LoaderFactory,
    seconds: float,
    clock: Clock,
    closing: ExitStack,
    watch: Watch = UNWATCHED,
) -> Tally:
    """Measure a loader's steady state for some seconds.

    Batches made before the clock starts do not count. From the first batch on the loader is pulled
    without a pause, so its buffers never fill unless it is faster than this process can take
    batches. Looks of an eighth of the measured time are thrown away until two in a row agree within
    a tenth: then the buffers lose as many batches as they gain, and hold as many at the end as at
    the start. The clock starts and stops when every worker has delivered a batch.

    Memory is read afterwards, during another second of pulling: reading it costs too much CPU time
    to be part of the measurement. `closing` gets the call that closes the loader, for after the
    result is safe.

    Raises:
        MisuseError: The loader gives no batches, or none with tokens in it.
        LoaderFailedError: The loader raised an exception.
    """
    puller = Puller(loader, clock, watch)
    closing.callback(close_with_timeout, puller.close)
    watch.begin_rounds()
    # Warm up until two looks in a row agree.
    started, before_s = clock(), 0.0
    for look in count():
        now_s = puller.pull_flat_out(_LOOK_FRACTION * seconds).s_per_batch
        if (look and abs(now_s - before_s) <= _AGREEMENT * now_s) or clock() - started > seconds:
            break
        before_s = now_s
    return _measure(puller, seconds, clock)


def longest_s(seconds: float) -> float:
    """Return the seconds that a run takes at most from its first batch on, where batches are quick.

    The warm-up takes at most as long as the measurement.
    """
    return 2 * seconds + _MEMORY_S


def _measure(puller: Puller, seconds: float, clock: Clock) -> Tally:
    counted: list[Counted] = []
    counting_s = restarting_s = 0.0
    read, cpu_s = bytes_read(puller.processes.worker_pids), puller.processes.cpu_s()
    started = clock()
    while not counted or clock() - started < seconds:
        for _ in range(puller.group):
            asked_s, restarts = clock(), puller.restarts
            batch, wait_s = puller.pull()
            if puller.restarts > restarts:
                restarting_s += clock() - asked_s - wait_s
            before_s = time.thread_time()
            counted.append(count_tokens(batch))
            counting_s += time.thread_time() - before_s
    wall_s = clock() - started - restarting_s
    cpu_s = puller.processes.cpu_s() - cpu_s - counting_s
    read_bytes = read_between(read, bytes_read(puller.processes.worker_pids))
    peak_pss_bytes, peak_rss_bytes = _peak_memory(puller, clock)
    tokens = sum(batch.tokens for batch in counted)
    if not tokens:
        raise MisuseError(f"the loader must give tokens; found none in {len(counted)} batches")
    return Tally(
        wall_s=wall_s,
        cpu_s=cpu_s,
        batches=len(counted),
        tokens=tokens,
        slots=sum(batch.slots for batch in counted),
        worst_padding_fraction=max(batch.padding_fraction for batch in counted),
        bytes_read=read_bytes,
        peak_pss_bytes=peak_pss_bytes,
        peak_rss_bytes=peak_rss_bytes,
        first_batch_s=puller.first_batch_s,
        counted_by=counted[0].rule,
    )


def _peak_memory(puller: Puller, clock: Clock) -> Iterator[int]:
    """Return the most PSS and the most RSS, in bytes, during another second of pulling."""
    started, samples = clock(), [read_memory()]
    while clock() - started < _MEMORY_S:
        puller.pull()
        samples.append(read_memory())
    return map(max, zip(*samples, strict=True))
