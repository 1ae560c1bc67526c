"""Small data sets for the tests of the pipeline."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from netpipe.workload.formats.addresses import AddressTable
from netpipe.workload.formats.rows import MEASUREMENT, ProbeRow, make_row
from netpipe.workload.formats.rtt import encode_rtt
from tests.workload.reference import Ping

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("event_time", pa.timestamp("us")),
    ("src_addr", pa.string()),
    ("dst_addr", pa.string()),
    ("ip_version", pa.int8()),
    ("rtt", pa.float32()),
]
SCHEMA = pa.schema(_FIELDS)


def make_pings(count: int, seed: int) -> list[Ping]:
    """Measurements of one probe in time order, of both families, some failed, some at once."""
    rng = np.random.default_rng(seed)
    time_us = 1_700_000_000_000_000 + np.cumsum(rng.choice([0, 400_000, 7_000_000, 9**10], count))
    rtt_ms = np.where(rng.random(count) < 0.1, -1, rng.lognormal(3, 2, count)).astype(np.float32)
    pings = []
    for moment, rtt in zip(time_us.tolist(), rtt_ms.tolist(), strict=True):
        version = 4 if rng.random() < 0.6 else 6
        prefix = "192.0.2." if version == 4 else "2001:db8::"
        hosts = rng.integers(1, 9, 2)
        pings.append(
            Ping(moment, f"{prefix}{hosts[0] % 2 + 1}", f"{prefix}{hosts[1]}", version, rtt)
        )
    return pings


def as_row(pings: Sequence[Ping], probe: int = 1) -> ProbeRow:
    """The probe row of measurements in time order."""
    addresses = AddressTable()
    version = np.array([ping.ip_version for ping in pings])
    history = np.empty(len(pings), MEASUREMENT)
    history["probe"] = probe
    history["time_us"] = [ping.time_us for ping in pings]
    history["rtt_code"] = encode_rtt(np.array([ping.rtt_ms for ping in pings]))
    for field in ("source", "destination"):
        texts = pa.array([getattr(ping, field) for ping in pings])
        history[field] = addresses.number_column(texts, version)
    return make_row(history, addresses)


def as_table(pings: Sequence[Ping], probe: int | None = None) -> pa.Table:
    """Measurements as a table of the parquet schema."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    columns: dict[str, Sequence[object]] = {
        "event_time": [epoch + timedelta(microseconds=ping.time_us) for ping in pings],
        "src_addr": [ping.source for ping in pings],
        "dst_addr": [ping.destination for ping in pings],
        "ip_version": [ping.ip_version for ping in pings],
        "rtt": [ping.rtt_ms for ping in pings],
    }
    table = pa.table(columns, SCHEMA)
    if probe is None:
        return table
    return table.append_column("prb_id", pa.array([probe] * len(pings), pa.int64()))


def write_probes(path: Path, histories: dict[int, list[Ping]]) -> None:
    """Write the measurements of several probes into one parquet file, in time order."""
    table = pa.concat_tables([as_table(pings, probe) for probe, pings in histories.items()])
    pq.write_table(table.sort_by("event_time"), path)
