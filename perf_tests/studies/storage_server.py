"""`python -m perf_tests.studies.storage_server`: a real server that delays, beside the stand-in.

Grain pipelines read parquet and ArrayRecord from an S3-compatible server behind a proxy that is as
slow as a storage, and the same local files in the stand-in of that storage, in turns.
`tox -e storage-server` has the server.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
import psutil
from rich.console import Console

from netpipe.storage import stand_in
from netpipe.storage.profiles import parse_storage
from perf_tests.studies.options import exit_on_signals
from perf_tests.studies.records import append_record, read_records
from tests.storage_server.data import make_bucket
from tests.storage_server.mount import mounted_bucket
from tests.storage_server.pipelines import (
    BATCH_ELEMENTS,
    ENDPOINT,
    SOURCES,
    make_pipeline,
    open_local,
)
from tests.storage_server.server import StorageServer, storage_server
from tests.storage_server.sources import ARROW_IO_THREADS, MIN_CONNECTIONS, connect

_LOADER: Final = "tests/storage_server/pipelines.py:loader"
_STORAGE: Final = "object-store,latency=100ms,tail=300ms"
# Reads of a closed pipeline continue until they are answered.
_QUIET_S: Final = 1.0
_LIMIT_S: Final = 8.0
_COUNTED_ELEMENTS: Final = 8

_notes = Console(stderr=True)


@dataclass(frozen=True)
class Case:
    """A pipeline that is measured.

    Attributes:
        source: Its name in `SOURCES`.
        threads: Read threads of Grain.
        io_threads: Threads of Arrow, and connections of pyarrow where they are more than 25.
        limit: The setting of the stand-in that declares what the client limits, if anything.
    """

    source: str
    threads: int
    io_threads: int = 64
    limit: str = ""


_READ_AHEAD, _DEFAULT, _RANGES, _MOUNTED = SOURCES
CASES: Final = (
    *(Case(_READ_AHEAD, threads) for threads in (1, 4, 16, 64)),
    Case(_READ_AHEAD, 64, ARROW_IO_THREADS, f",concurrent={ARROW_IO_THREADS}"),
    *(Case(_RANGES, threads) for threads in (1, 4, 16, 64)),
    Case(_RANGES, 64, ARROW_IO_THREADS, f",concurrent={MIN_CONNECTIONS}"),
    Case(_DEFAULT, 16),
    Case(_MOUNTED, 16, limit=",concurrent=1"),
)


@dataclass(frozen=True)
class Reading:
    """The measured pipeline of one case in one turn.

    Attributes:
        storage: The storage that proxy and stand-in imitate, as `--storage` takes it.
        server_s_per_batch: Seconds for 8 elements with the server.
        stand_in_s_per_batch: Seconds for 8 elements with local files in the stand-in.
        s_per_request: Mean seconds of a request at the proxy.
        server_cpu_s_per_request: CPU time of the server and the proxy.
        client_cpu_s_per_request: CPU time of the process that reads.
        requests_per_element: Requests to the server per element.
        bytes_per_element: Bytes that these requests move.
    """

    storage: str
    case: Case
    server_s_per_batch: float
    stand_in_s_per_batch: float
    s_per_request: float
    server_cpu_s_per_request: float
    client_cpu_s_per_request: float
    requests_per_element: float
    bytes_per_element: float

    @property
    def stand_in_ratio(self) -> float:
        """The time in the stand-in over that with the server."""
        return self.stand_in_s_per_batch / self.server_s_per_batch

    @property
    def busy_cores(self) -> float:
        """The cores that reading keeps busy at both ends of the connections."""
        cpu_s_per_request = self.server_cpu_s_per_request + self.client_cpu_s_per_request
        requests_per_batch = BATCH_ELEMENTS * self.requests_per_element
        return cpu_s_per_request * requests_per_batch / self.server_s_per_batch


def measure(case: Case, bucket: Path, server: StorageServer, storage: str, seed: int) -> Reading:
    """Measure a case with the server, then with the stand-in."""
    make_source = SOURCES[case.source]
    with ExitStack() as stack:
        folder = bucket
        if case.source == _MOUNTED:
            folder = stack.enter_context(mounted_bucket(server.endpoint, server.folder))
        remote = make_source(connect(server.endpoint, case.io_threads), folder)
        requests, moved_bytes = _count_requests(remote, server)
        timed = _Timed(server)
        server_s = timed.read(remote, case.threads, seed)
    local = stand_in(make_source(open_local(bucket), bucket), storage + case.limit)
    return Reading(
        storage=storage,
        case=case,
        server_s_per_batch=server_s,
        stand_in_s_per_batch=_Timed(server).read(local, case.threads, seed),
        s_per_request=mean(each.duration_s for each in timed.requests),
        server_cpu_s_per_request=timed.server_cpu_s / len(timed.requests),
        client_cpu_s_per_request=timed.client_cpu_s / len(timed.requests),
        requests_per_element=requests,
        bytes_per_element=moved_bytes,
    )


def _count_requests(source: Any, server: StorageServer) -> tuple[float, float]:
    """Return the requests per element, and the bytes that they move."""
    before = len(server.requests())
    # Far from each other, as in a shuffled order.
    for number in range(_COUNTED_ELEMENTS):
        source[(7 * number + 3) % _COUNTED_ELEMENTS * len(source) // _COUNTED_ELEMENTS]
    made = server.requests(before)
    moved_bytes = sum(request.body_bytes for request in made)
    return len(made) / _COUNTED_ELEMENTS, moved_bytes / _COUNTED_ELEMENTS


class _Timed:
    """Timed batches, with the CPU time and the requests of the server meanwhile."""

    def __init__(self, server: StorageServer) -> None:
        self._server = server

    def read(self, source: Any, threads: int, seed: int) -> float:
        """Read until the allowed number of reads is in flight, then time batches."""
        warm_up = 1 + 2 * threads // BATCH_ELEMENTS
        count = 8 + 3 * threads // 2
        me, server = psutil.Process(), self._server
        with closing(iter(make_pipeline(source, threads, seed))) as batches:
            for _ in islice(batches, warm_up):
                pass
            before = len(server.requests())
            began = time.perf_counter(), sum(me.cpu_times()[:2]), server.cpu_s()
            for number, _ in enumerate(islice(batches, count), 1):
                duration_s = time.perf_counter() - began[0]
                if duration_s > _LIMIT_S:
                    count = number
                    break
            self.client_cpu_s = sum(me.cpu_times()[:2]) - began[1]
            self.server_cpu_s = server.cpu_s() - began[2]
            self.requests = server.requests(before)
        time.sleep(_QUIET_S)
        return duration_s / count


def format_table(readings: list[Reading]) -> Iterator[str]:
    """Yield a Markdown table with the medians of all turns."""
    yield (
        "| source | an element: requests, kB | threads | a request, ms | server, s per batch | "
        "stand-in, s per batch | ratio | cores busy |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for case in CASES:
        if turns := [each for each in readings if each.case == case]:
            yield _format_row(case, turns)


def _format_row(case: Case, turns: list[Reading]) -> str:
    def find_median(field: str) -> float:
        return float(median(getattr(each, field) for each in turns))

    is_default = case.io_threads == ARROW_IO_THREADS
    cells = (
        case.source + (f", Arrow's own {case.io_threads} threads" if is_default else ""),
        f"{find_median('requests_per_element'):.0f}, {find_median('bytes_per_element') / 1e3:.0f}",
        str(case.threads),
        f"{find_median('s_per_request') * 1e3:.0f}",
        f"{find_median('server_s_per_batch'):.3f}",
        f"{find_median('stand_in_s_per_batch'):.3f}" + (case.limit and f" (`{case.limit[1:]}`)"),
        f"{find_median('stand_in_ratio'):.2f}",
        f"{find_median('busy_cores'):.1f}",
    )
    return f"| {' | '.join(cells)} |"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--turns", type=click.IntRange(min=0), default=3, show_default=True)
@click.option(
    "--storage", default=_STORAGE, show_default=True, help="The storage that the proxy imitates."
)
@click.option(
    "--trials", "path", type=click.Path(dir_okay=False, path_type=Path),
    default=Path(__file__).with_suffix(".jsonl"), show_default=True, help="The file of readings.",
)  # fmt: skip
@click.option("--diagnose", is_flag=True, help="Show netpipe's diagnosis of the server.")
def main(turns: int, storage: str, path: Path, diagnose: bool) -> None:
    """Measure pipelines with a delaying server and with the stand-in; print the file's table.

    A turn takes about three minutes.
    """
    exit_on_signals()
    with TemporaryDirectory(prefix="storage-server-") as folder:
        bucket = make_bucket(Path(folder, "served"))
        with storage_server(bucket.parent, Path(folder), parse_storage(storage)) as server:
            for turn in range(turns):
                for case in CASES:
                    reading = measure(case, bucket, server, storage, seed=turn)
                    append_record(path, reading)
                    _notes.print(f"turn {turn}: {_format_row(case, [reading])}", soft_wrap=True)
            if diagnose:
                command = [sys.executable, "-m", "netpipe", "diagnose", "--loader", _LOADER]
                subprocess.run(command, env={**os.environ, ENDPOINT: server.endpoint}, check=True)
    for line in format_table(read_records(path, Reading)):
        Console(soft_wrap=True).print(line)


if __name__ == "__main__":
    main()
