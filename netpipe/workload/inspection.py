"""A description of a data file or folder: its format, counts, time span, and a decoded row."""

from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from netpipe.errors import InputError
from netpipe.workload.formats.addresses import AddressTable
from netpipe.workload.formats.index import INDEX_NAME, load_index
from netpipe.workload.formats.layout import decode_row
from netpipe.workload.formats.parquet import find_parquet, open_parquet, read_parquet
from netpipe.workload.formats.rows import ProbeRow, cut_rows, sort_by_probe, split_sorted, take
from netpipe.workload.formats.rtt import decode_rtt
from netpipe.workload.formats.shards import ShardReader, require_records
from netpipe.workload.sources.probe_rows import find_array_records, find_format

SCHEMA: Final = "netpipe.inspection/1"
_MAX_ROWS: Final = 1000
_SHOWN: Final = 3


def inspect(path: Path) -> dict[str, Any]:
    """Return the `netpipe.inspection/1` document of a file or a folder.

    A count is None if it would require reading all rows. `read` describes a sample: at most
    1,000 rows of ArrayRecord files, evenly spaced, or the first measurements of the first parquet
    file.
    """
    if path.is_dir():
        kind = find_format(path)
        files = find_array_records(path) if kind == "arrayrecord" else find_parquet(path)
    else:
        kind, files = path.suffix.removeprefix("."), [path]
    if kind not in ("arrayrecord", "parquet") or not path.exists():
        found = "nothing" if not path.exists() else path.name
        raise InputError(path, "path", "be *.arrayrecord, *.parquet, or a folder of these", found)
    describe = _describe_records if kind == "arrayrecord" else _describe_parquet
    counts, rows = describe(path, files)
    measured = take(rows, [np.arange(len(row)) for row in rows])
    return {
        "schema": SCHEMA,
        "path": str(path),
        "format": kind,
        "files": len(files),
        "bytes": sum(file.stat().st_size for file in files),
        **counts,
        "read": {
            "rows": len(rows),
            "measurements": len(measured),
            "first": _format_time(measured.second.min()),
            "last": _format_time(measured.second.max()),
            "failed_fraction": float(np.mean(measured.rtt_code == 0)),
            "ipv6_fraction": float(np.mean(measured.is_ipv6)),
        },
        "example": _describe_row(rows[0]),
    }


def _describe_records(path: Path, files: Sequence[Path]) -> tuple[dict[str, Any], list[ProbeRow]]:
    counts = list(map(require_records, files))
    numbers = np.unique(np.linspace(0, sum(counts) - 1, _MAX_ROWS).astype(int)).tolist()
    if not sum(counts):
        raise InputError(path, "records", "be at least 1", 0)
    rows = [decode_row(*record) for record in ShardReader(files, counts).read(numbers)]
    known: dict[str, Any] = {"rows": sum(counts), "measurements": None, "splits": {}}
    if len(rows) == known["rows"]:
        known["measurements"] = sum(map(len, rows))
    if path.is_dir() and (path / INDEX_NAME).exists():
        index = load_index(path)
        splits = {"train": index.train, "eval": index.eval}
        known["measurements"] = sum(split.measurements for split in splits.values())
        known["splits"] = {
            name: {"probes": split.probes, "rows": split.rows, "measurements": split.measurements}
            for name, split in splits.items()
        }
    return known, rows


def _describe_parquet(_: Path, files: Sequence[Path]) -> tuple[dict[str, Any], list[ProbeRow]]:
    measurements = sum(open_parquet(file).metadata.num_rows for file in files)
    addresses = AddressTable()
    first = next(read_parquet(files[0], addresses))
    histories = split_sorted(sort_by_probe(first))
    rows = [row for history in histories for row in cut_rows(history, addresses)]
    return {"rows": None, "measurements": measurements, "splits": {}}, rows[:_MAX_ROWS]


def _describe_row(row: ProbeRow) -> dict[str, Any]:
    shown = take([row], [np.arange(min(_SHOWN, len(row)))])
    return {
        "probe": row.probe,
        "measurements": len(row),
        "first": _format_time(row.first_s),
        "last": _format_time(row.first_s + int(row.offset_s[-1])),
        "shown": [
            {
                "time": _format_time(shown.second[number]),
                "source": _format_address(shown.source[number], shown.is_ipv6[number]),
                "destination": _format_address(shown.destination[number], shown.is_ipv6[number]),
                "rtt_ms": float(decode_rtt(code)) if code else None,
            }
            for number, code in enumerate(shown.rtt_code)
        ],
    }


def _format_address(octets: NDArray[np.uint8], is_ipv6: np.bool_) -> str:
    return str(ip_address(octets.tobytes()[: 16 if is_ipv6 else 4]))


def _format_time(second: int | np.integer[Any]) -> str:
    return f"{np.datetime64(int(second), 's')}+00:00"  # unlike datetime, beyond the year 9999
