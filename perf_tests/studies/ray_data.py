"""`python -m perf_tests.studies.ray_data SOURCE --out OUT --address A`: prepare with Ray Data.

The comparison for `netpipe prepare --runner ray`: Ray Data reads, shuffles by a hash of the probe,
and makes the rows. One file for each hash holds them; no shards or index are made. A column with
the place of each measurement keeps the order of equal times, which its shuffle loses.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from netpipe.workload.formats.addresses import ADDRESS, AddressTable
from netpipe.workload.formats.layout import encode_row
from netpipe.workload.formats.parquet import find_parquet, read_parquet
from netpipe.workload.formats.places import Place
from netpipe.workload.formats.rows import MEASUREMENT, cut_rows, sort_by_probe, split_sorted
from netpipe.workload.preparation.runs import find_buckets

_BUCKETS = 64
_PARTITIONS = 16
_BLOCK_ROWS = 100_000
_COPIED = ("probe", "time_us", "rtt_code")


def read(batch: dict[str, NDArray[Any]]) -> Iterator[pa.Table]:
    """Yield the measurements of a file with their buckets, places and addresses."""
    [number], [path] = batch["number"].tolist(), batch["path"].tolist()
    addresses, place = AddressTable(), int(number) << 40
    for measurements in read_parquet(Place.local(Path(path)), addresses):
        known = addresses.take(np.arange(len(addresses)))
        for first in range(0, len(measurements), _BLOCK_ROWS):
            part = measurements[first : first + _BLOCK_ROWS]
            columns: dict[str, Any] = {name: np.ascontiguousarray(part[name]) for name in _COPIED}
            for name in ("source", "destination"):
                packed = np.ascontiguousarray(known["octets"][part[name]])
                columns[name] = pa.Array.from_buffers(
                    pa.binary(16), len(part), [None, pa.py_buffer(packed)]
                )
            columns["family"] = known["family"][part["source"]]
            columns["bucket"] = find_buckets(columns["probe"], _BUCKETS)
            columns["place"] = place + np.arange(len(part))
            place += len(part)
            yield pa.table(columns)


def write(table: pa.Table, out: Path) -> pa.Table:
    """Write the rows of a bucket, and return how many measurements they have."""
    table = table.sort_by("place").combine_chunks()
    measurements = np.empty(len(table), MEASUREMENT)
    for name in _COPIED:
        measurements[name] = table[name].to_numpy()
    joined = pa.chunked_array([*table["source"].chunks, *table["destination"].chunks])
    encoded = joined.combine_chunks().dictionary_encode()
    which, texts = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
    addresses = np.empty(len(texts), ADDRESS)
    addresses["octets"] = np.frombuffer(b"".join(texts), np.uint8).reshape(-1, 16)
    addresses["family"][which] = np.tile(table["family"].to_numpy(), 2)
    measurements["source"], measurements["destination"] = np.split(which, 2)
    bucket = table["bucket"][0].as_py()
    with (out / f"{bucket:02d}.rows").open("wb") as stream:
        for history in split_sorted(sort_by_probe(measurements)):
            for row in cut_rows(history, addresses):
                stream.write(encode_row(row))
    return pa.table({"measurements": [len(measurements)]})


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--address", required=True)
def main(source: Path, out: Path, address: str) -> None:
    """Prepare the parquet files of a folder."""
    import ray
    from ray import data

    out.mkdir()
    ray.init(address, log_to_driver=False)
    context = data.DataContext.get_current()
    context.enable_progress_bars = False
    files = [{"number": n, "path": str(path)} for n, path in enumerate(find_parquet(source))]
    counts = (
        data.from_items(files, override_num_blocks=len(files))
        .map_batches(read, batch_size=1)
        .groupby("bucket", num_partitions=_PARTITIONS)
        .map_groups(write, batch_format="pyarrow", fn_kwargs={"out": out.absolute()})
    )
    click.echo(counts.sum("measurements"))


if __name__ == "__main__":
    main()
