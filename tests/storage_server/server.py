"""A server that speaks S3 and the proxy in front of it, on free ports of loopback."""

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

import psutil

from netpipe.errors import NetpipeError
from netpipe.storage.profiles import StorageProfile
from perf_tests.studies.children import end_group
from tests.storage_server.programs import find_debian_program, find_rclone
from tests.storage_server.proxy import Request, read_requests, write_config

KEY, SECRET = "reader", "reader-secret"
_START_LIMIT_S: Final = 20.0
_POLL_S: Final = 0.05


class ServerError(NetpipeError):
    """A program of the server did not start."""


@dataclass(frozen=True)
class StorageServer:
    """A running server.

    Attributes:
        endpoint: The address of the proxy, `127.0.0.1:PORT`.
        processes: The processes of server and proxy.
        folder: Has the log of the proxy.
    """

    endpoint: str
    processes: tuple[psutil.Process, ...]
    folder: Path

    def requests(self, first: int = 0) -> list[Request]:
        """Return the requests that the proxy has answered, from this number on."""
        # The proxy logs a request after its answer, but before the next answer.
        connection = HTTPConnection(self.endpoint)
        connection.request("GET", "/.written")
        connection.getresponse().read()
        connection.close()
        return read_requests(self.folder)[first:]

    def cpu_s(self) -> float:
        """Return the CPU time of the server and the proxy so far, in seconds."""
        return sum(sum(process.cpu_times()[:2]) for process in self.processes)


@contextmanager
def storage_server(served: Path, scratch: Path, storage: StorageProfile) -> Iterator[StorageServer]:
    """Serve the folders in `served` as buckets, as slowly as a storage, until the exit.

    Both programs write into `scratch`, and end with this process, however it ends.

    Raises:
        InputError: A program is not installed.
        ServerError: A program does not start.
    """
    server_port, port = find_free_ports(2)
    config = write_config(scratch, storage, server_port, port)
    serve = [
        find_rclone(), "serve", "s3", str(served), "--config=", f"--addr=127.0.0.1:{server_port}",
        f"--auth-key={KEY},{SECRET}", "--read-only", "--vfs-cache-mode=off",
    ]  # fmt: skip
    delay = [find_debian_program("nginx"), "-p", str(scratch), "-c", str(config)]
    with (
        running(serve, scratch / "server.log") as server,
        running(delay, scratch / "proxy.log") as proxy,
    ):
        _await_port(server, server_port, scratch / "server.log")
        _await_port(proxy, port, scratch / "proxy.log")
        processes = psutil.Process(server.pid), psutil.Process(proxy.pid)
        yield StorageServer(f"127.0.0.1:{port}", processes, scratch)


@contextmanager
def writable_server(served: Path, scratch: Path) -> Iterator[str]:
    """Serve the folders in `served` as buckets that can be written to; yields `127.0.0.1:PORT`.

    Raises:
        InputError: A program is not installed.
        ServerError: The server does not start.
    """
    [port] = find_free_ports(1)
    serve = [
        find_rclone(), "serve", "s3", str(served), "--config=", f"--addr=127.0.0.1:{port}",
        f"--auth-key={KEY},{SECRET}", "--vfs-cache-mode=off",
    ]  # fmt: skip
    with running(serve, scratch / "server.log") as server:
        _await_port(server, port, scratch / "server.log")
        yield f"127.0.0.1:{port}"


def find_free_ports(count: int) -> list[int]:
    """Return free port numbers."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def running(command: Sequence[str], log: Path) -> "Iterator[subprocess.Popen[str]]":
    """Run a program until the exit, or until this process ends; it writes into `log`."""
    # It replaces itself with the program, which the kernel ends if this process is killed.
    ending = [find_debian_program("setpriv"), "--pdeathsig=TERM", "--"]
    with (
        log.open("w") as stream,
        subprocess.Popen(
            [*ending, *command], stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
            start_new_session=True, text=True,
        ) as process,
    ):  # fmt: skip
        try:
            yield process
        finally:
            end_group(process)


def _await_port(process: "subprocess.Popen[str]", port: int, log: Path) -> None:
    limit_s = time.monotonic() + _START_LIMIT_S
    while process.poll() is None and time.monotonic() < limit_s:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(_POLL_S)
    last_line = (log.read_text().strip().splitlines() or ["it said nothing"])[-1]
    raise ServerError(f"{log.stem} does not listen on port {port}: {last_line}")
