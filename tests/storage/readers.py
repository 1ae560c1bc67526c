"""Readers on a virtual clock: nothing sleeps, and results are the same on any machine."""

from heapq import heapify, heappop, heappush
from typing import NamedTuple

from netpipe.storage.emulated_storage import Service
from netpipe.storage.profiles import PRESETS, StorageProfile


class Reads(NamedTuple):
    """The readers' results: the time of each read, failed or refused attempts, and the end."""

    took_s: list[float]
    refused: int
    over_s: float

    @property
    def per_s(self) -> float:
        """Reads per second."""
        return len(self.took_s) / self.over_s

    def percentile(self, percent: int) -> float:
        """Return the given percentile of the read times, in seconds."""
        return sorted(self.took_s)[percent * len(self.took_s) // 100]


def read(service: Service, reads: int, readers: int = 1, size: int = 0) -> Reads:
    """Make each reader read one record after the other, and repeat unsuccessful reads."""
    waiting, took_s, refused, over_s = [(0.0, 0.0, 0)] * readers, list[float](), 0, 0.0
    heapify(waiting)
    while len(took_s) < reads:
        now_s, began_s, attempt = heappop(waiting)
        over_s, is_served = service.request(size, now_s, attempt)
        if is_served:
            took_s.append(over_s - began_s)
            heappush(waiting, (over_s, over_s, 0))
        else:
            refused += 1
            heappush(waiting, (over_s, began_s, attempt + 1))
    return Reads(took_s, refused, max(over_s, *(at_s for at_s, *_ in waiting)))


def storage(**settings: float) -> Service:
    """Return a storage with these settings, otherwise without limits."""
    return Service(StorageProfile("testing", **settings))


def preset(name: str) -> Service:
    """Return a new storage with the profile of a preset."""
    return Service(PRESETS[name])
