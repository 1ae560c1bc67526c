"""The proxy: its configuration for a storage, and its log of requests."""

from math import inf, log
from pathlib import Path
from statistics import NormalDist
from typing import Final, NamedTuple

import jinja2

from netpipe.errors import MisuseError
from netpipe.storage.profiles import StorageProfile

_TEMPLATE: Final = Path(__file__).parent / "nginx.conf.j2"
# As in the stand-in, a few reads may begin at once.
_BURST_S: Final = 0.1
_UNLIMITED_BYTES_PER_S: Final = 1e12


class Request(NamedTuple):
    """A request that the proxy has answered.

    Attributes:
        byte_range: The requested range: `bytes=0-99`, or `-` for none.
        body_bytes: Bytes sent to the client, without headers.
        duration_s: Time from the request's first byte to the answer's last byte.
    """

    status: int
    method: str
    path: str
    byte_range: str
    body_bytes: int
    duration_s: float


def write_config(folder: Path, storage: StorageProfile, server_port: int, port: int) -> Path:
    """Write a configuration with which nginx is as slow as a storage; return its path.

    The total bandwidth is not limited: no test comes near that of an object store.

    Raises:
        MisuseError: The storage has a limit that the proxy does not have.
    """
    if (
        storage.max_concurrent_reads < inf
        or storage.failure_fraction
        or storage.cache_bytes
        or storage.warm_fraction
    ):
        raise MisuseError(
            f"storage {storage.name}: the proxy can delay and refuse reads; found a limit of "
            "concurrent reads, failures or a cache"
        )
    tail_ratio = storage.tail_latency_s / storage.latency_s if storage.tail_latency_s else 1.0
    is_limited = storage.reads_per_s < inf
    path = folder / "nginx.conf"
    template = jinja2.Template(_TEMPLATE.read_text("utf-8"), undefined=jinja2.StrictUndefined)
    text = template.render(
        folder=folder,
        server_port=server_port,
        port=port,
        seed=0,
        latency_s=storage.latency_s,
        spread=log(tail_ratio) / NormalDist().inv_cdf(0.99),
        bytes_per_s=round(min(storage.connection_bytes_per_s, _UNLIMITED_BYTES_PER_S)),
        reads_per_s=round(storage.reads_per_s) if is_limited else 0,
        burst_reads=max(1, round(_BURST_S * storage.reads_per_s)) if is_limited else 0,
    )
    path.write_text(text, "utf-8")
    return path


def read_requests(folder: Path) -> list[Request]:
    """Return the requests that were answered so far, in this order."""
    path = folder / "requests.log"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [
        Request(int(status), method, uri, byte_range, int(sent), float(duration))
        for status, method, uri, byte_range, sent, duration in (line.split("\t") for line in lines)
    ]
