"""Finds out whether reading waits, and how many bytes a batch has."""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import PurePath
from typing import Any, Final

import psutil

from netpipe.clock import Clock
from netpipe.errors import MisuseError
from netpipe.grain_access.dataset_variants import build_variant, open_iterator
from netpipe.grain_access.grain_classes import is_random_access
from netpipe.grain_access.loader_variants import single_thread_settings
from netpipe.grain_access.nodes import Graph, qualified_name
from netpipe.grain_access.pickled_size import PickleSizer
from netpipe.grain_access.reader import collect_datasets, own_attributes
from netpipe.jobs.bounded_calls import call_within
from netpipe.jobs.processes import core_delay_s
from netpipe.jobs.targets import LoaderFactory
from netpipe.linting.rules.finding import Reads

_BUCKET: Final = re.compile(r"(gs|s3a?|az|abfss?|wasbs?|adl|oci|oss|cos|hf|hdfs)://\S+")
# The excluded kinds of FUSE serve files of the same machine.
_NETWORK_MOUNT: Final = re.compile(
    r"nfs4?|cifs|smb3|lustre|ceph|gpfs|beegfs|afs|wekafs|fuse(\.(?!(fuse-overlayfs|lxcfs|portal|"
    r"squashfuse(_ll)?|bindfs|mergerfs|encfs|gocryptfs)$).+)?"
)
# Levels: a list of sources, a dataset, its source, an object in the source, a list of paths.
_MAX_DEPTH: Final = 5
_MAX_ITEMS: Final = 30
_READ_TIME_S: Final = 0.5
_LIMIT_S: Final = 4.0
_WAITING_FRACTION: Final = 0.5


def find_reads(loader: object, dataset: object) -> Reads:
    """Return whether reading waits according to `loader.netpipe_storage` or a source's path."""
    declared = getattr(loader, "netpipe_storage", None)
    if declared is None:
        datasets = collect_datasets(dataset).values()
        sources = [each for each in datasets if not getattr(each, "parents", ())]
        return next(_judge_paths(_find_paths(sources, _MAX_DEPTH)), Reads())
    name = f"{qualified_name(loader).rpartition('.')[2]}.netpipe_storage"
    if declared not in ("remote", "local"):
        raise MisuseError(f"{name} must be 'remote', 'local' or missing; found {declared!r}")
    return Reads(declared == "remote", f"{name} is {declared!r}")


def _judge_paths(paths: Iterable[str]) -> Iterator[Reads]:
    """Yield evidence of remote paths without opening them: a mount whose server is down hangs."""
    types = {mount.mountpoint: mount.fstype for mount in psutil.disk_partitions(all=True)}
    for path in paths:
        above = [folder for folder in types if PurePath(path).is_relative_to(folder)]
        mount = types[max(above, key=len)] if above else ""
        if _BUCKET.fullmatch(path) or _NETWORK_MOUNT.fullmatch(mount):
            yield Reads(True, f"a source has the path {path} ({mount or 'object store'})")


def _find_paths(value: object, depth: int) -> Iterator[str]:
    """Yield the strings and paths among the items and attributes of a value, to a given depth."""
    if issubclass(type(value), str | PurePath):
        yield str(value)
    elif depth:
        items = value if isinstance(value, list | tuple) else own_attributes(value).values()
        for item in islice(items, _MAX_ITEMS):
            yield from _find_paths(item, depth - 1)


def measure_reads(dataset: object, clock: Clock) -> Reads | None:
    """Return whether reading a few elements in one thread waits; None if that is impossible."""
    times_s: list[tuple[float, float]] = []

    def read() -> None:
        maps: Any = list(filter(is_random_access, collect_datasets(dataset).values()))
        below = {id(parent) for each in maps for parent in each.parents}
        last = [each for each in maps if id(each) not in below]
        for position in range(min(map(len, last), default=0)):
            for each in last:
                each[position]
            # Waiting for a core is not waiting for storage.
            times_s.append((clock(), time.process_time() + core_delay_s()))
            if clock() - times_s[0][0] > _READ_TIME_S:
                break

    # The trials will fail in the same way, and report the error.
    with suppress(Exception):
        call_within(read, _LIMIT_S)
    if len(times_s) < 2:
        return None
    # Warm-up: the first element opens files.
    wall_s, busy_s = (end - start for start, end in zip(times_s[0], times_s[-1], strict=True))
    fraction = max(0.0, 1 - busy_s / wall_s)
    evidence = f"reading was measured to wait for {fraction:.0%} of its time"
    return Reads(fraction > _WAITING_FRACTION, evidence)


def measure_batch(loader: LoaderFactory, graph: Graph) -> int | None:
    """Return the bytes of a batch, made without workers and threads; None if that is impossible."""

    def read() -> int | None:
        with open_iterator(made) as batches:
            return PickleSizer().measure(next(batches)).bytes

    with suppress(Exception):
        # Not in another thread, because Grain's methods are replaced while the variant is built.
        made = build_variant(loader, single_thread_settings(graph))
        return call_within(read, _LIMIT_S)
    return None
