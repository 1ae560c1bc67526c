"""Seeded synthetic measurements, distributed like real ones, and the default data set."""

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import replace
from errno import EPERM
from pathlib import Path
from socket import AF_INET, AF_INET6, inet_ntop
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from netpipe.errors import InputError
from netpipe.files.temporary_folders import temporary_folder
from netpipe.workload.formats.index import Index, load_index, save_index
from netpipe.workload.formats.places import Place
from netpipe.workload.preparation.output_folder import whole_folder
from netpipe.workload.preparation.plan import make_plan
from netpipe.workload.preparation.prepare import Progress, Settings, prepare_plan
from netpipe.workload.preparation.profiles import PROFILES, Profile
from netpipe.workload.preparation.tasks import run_here

_DAY_S = 86_400
_START_S = 1_704_067_200  # 2024-01-01 UTC
_PROBES_PER_FILE = 1000
_DESTINATIONS = 4000
_PAIRS = 24
# The number at the end changes whenever the output of `generate` changes.
_EMBEDDED_NAME = "netpipe-embedded-data-2"


def generate(
    out: Path,
    *,
    probes: int | None = None,
    seed: int = 0,
    profile: Profile = PROFILES["embedded"],
    progress: Progress | None = None,
) -> Index:
    """Make a data set: `out/parquet/*.parquet`, and prepared shards with their index in `out`.

    Prepared data in `out` are replaced once the new data are complete. `probes` overrides the
    profile's number of probes.
    """
    probes = profile.probes if probes is None else probes
    with whole_folder(out) as folder, temporary_folder("work", folder.parent) as work:
        parquet = folder / "parquet"
        parquet.mkdir()
        for number, first in enumerate(range(0, probes, _PROBES_PER_FILE)):
            rng = np.random.default_rng([seed, first])
            in_file = np.arange(first, min(first + _PROBES_PER_FILE, probes))
            table = make_table(rng, in_file, profile)
            # Without the Arrow schema, readers get the addresses as plain strings.
            pq.write_table(table, parquet / f"{number:05d}.parquet", store_schema=False)
        settings = Settings(seed=seed)
        plan = make_plan([parquet], vars(settings), settings.shards)
        index = prepare_plan(plan, settings, Place.local(work), folder, run_here, progress)
        # As with shards, the names contain a hash, so other data do not overwrite these files.
        rows = index.fingerprint[:16]
        for file in sorted(parquet.iterdir()):
            file = file.rename(parquet / f"{file.stem}-{rows}.parquet")
            index = replace(index, parquet=(*index.parquet, file.name))
        save_index(index, folder)
    return index


def embedded_data(*caches: Path) -> Path:
    """Return the default data set, from the first cache folder that has it or can be written to.

    The last folder tried is the user's own in the temporary directory. If several processes need
    the data, one generates them and the others wait.
    """
    for cache in caches:
        with suppress(OSError, InputError):
            return _embedded_in(cache)
    cache = Path(tempfile.gettempdir(), f"netpipe-cache-{os.geteuid()}")
    try:
        cache.mkdir(0o700, exist_ok=True)
        if cache.lstat().st_uid != os.geteuid():
            raise PermissionError(EPERM, "a folder of another user")
        return _embedded_in(cache)
    except OSError as error:
        way_out = "Set NETPIPE_DATA to prepared data, or XDG_CACHE_HOME to a folder"
        raise InputError(cache, "cache folder", "be writable", error.strerror, way_out) from error


def _embedded_in(cache: Path) -> Path:
    target = cache / _EMBEDDED_NAME
    if not _is_whole(target):
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f"{_EMBEDDED_NAME}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_whole(target):
                shutil.rmtree(target, ignore_errors=True)
                generate(target)
    return target


def _is_whole(folder: Path) -> bool:
    try:
        load_index(folder)
    except InputError:
        return False
    return True


def data_of_user() -> Path:
    """Return the data in `NETPIPE_DATA`, or the default data set in the user's cache folder."""
    chosen = os.environ.get("NETPIPE_DATA")
    if chosen:
        return Path(chosen)
    try:
        caches = [Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")]
    except RuntimeError:  # neither HOME nor an entry in passwd
        caches = []
    return embedded_data(*(cache / "netpipe" for cache in caches))


def make_table(rng: np.random.Generator, probes: NDArray[np.int64], profile: Profile) -> pa.Table:
    """Return a table of all measurements of some probes, in time order."""
    spread = np.exp(profile.log_sigma * rng.standard_normal(len(probes)))
    counts = np.clip(profile.median_measurements * spread, 1, profile.max_measurements)
    counts = counts.astype(np.int64)
    slot = np.repeat(np.arange(len(probes)), counts)
    turn = np.arange(len(slot)) - np.repeat(np.cumsum(counts) - counts, counts)
    # A steady interval per probe with some jitter, over at most 90 days.
    interval_s = np.exp(rng.uniform(np.log(60), np.log(900), len(probes)))
    interval_s = np.minimum(interval_s, 90 * _DAY_S / counts)
    start_s = _START_S + rng.uniform(0, 7 * _DAY_S, len(probes))
    jitter = rng.uniform(0, 0.2, len(slot))
    time_s = start_s[slot] + (turn + jitter) * interval_s[slot]
    order = np.argsort(time_s, kind="stable")
    slot, turn, time_s = slot[order], turn[order], time_s[order]
    # A probe measures some of its pairs in turn. A few destinations are popular.
    pair = slot * _PAIRS + turn % rng.integers(1, _PAIRS + 1, len(probes))[slot]
    pairs = len(probes) * _PAIRS
    destination = (_DESTINATIONS * rng.random(pairs) ** 3).astype(np.int64)
    is_ipv4 = (rng.random(pairs) < profile.ipv4_fraction)[pair]
    # A floor per pair, limited by the size of the earth, plus evening queues and rare spikes.
    floor_ms = np.minimum(rng.lognormal(np.log(45), 1.25, pairs), rng.uniform(220, 340, pairs))
    rhythm_ms = rng.exponential(4, pairs)
    evening = np.maximum(0, np.sin(2 * np.pi * (time_s / _DAY_S - 0.5))) ** 2
    queue_ms = rhythm_ms[pair] * evening * rng.exponential(1, len(pair))
    spike_ms = np.where(rng.random(len(pair)) < 0.01, 20 * rng.pareto(1.5, len(pair)), 0)
    rtt_ms = floor_ms[pair] + rng.exponential(0.4, len(pair)) + queue_ms + spike_ms
    # The RTT of a failed measurement is -1.
    failure_fraction = rng.uniform(0.03, 0.08, len(probes))
    rtt_ms = np.where(rng.random(len(pair)) < failure_fraction[slot], -1.0, rtt_ms)
    everywhere = np.arange(_DESTINATIONS)
    return pa.table(
        {
            "event_time": pa.array((time_s * 1e6).astype(np.int64), pa.timestamp("us", "UTC")),
            "src_addr": _addresses(probes, 0, slot, is_ipv4),
            "dst_addr": _addresses(everywhere, 1 << 16, destination[pair], is_ipv4),
            "ip_version": pa.array(np.where(is_ipv4, 4, 6), pa.int8()),
            "rtt": pa.array(rtt_ms, pa.float32()),
            "prb_id": pa.array(probes[slot] + 1, pa.int64()),
        }
    )


def _addresses(
    hosts: NDArray[np.int64], offset: int, which: NDArray[np.int64], is_ipv4: NDArray[np.bool_]
) -> "pa.DictionaryArray[Any, Any]":
    """Return addresses in the networks 198.18.0.0/15 (RFC 2544) and 2001:db8::/32 (RFC 3849)."""
    numbers = [int(host) + offset for host in hosts]
    ipv4 = [inet_ntop(AF_INET, (0xC6120000 + n % (1 << 17)).to_bytes(4, "big")) for n in numbers]
    ipv6 = [inet_ntop(AF_INET6, (0x20010DB8 << 96 | n + 1).to_bytes(16, "big")) for n in numbers]
    index = np.where(is_ipv4, which, which + len(hosts))
    return pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), pa.array(ipv4 + ipv6))
