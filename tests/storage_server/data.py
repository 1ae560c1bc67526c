"""The server's data: generated measurements as parquet row groups and as ArrayRecord."""

from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

from netpipe.workload.preparation.profiles import Profile
from netpipe.workload.preparation.synthetic import generate

BUCKET: Final = "measured"
PARQUET: Final = "rows.parquet"
ARRAY_RECORD: Final = "rows.arrayrecord"
# A record takes about 8 kB and a row group 19 kB.
_ROWS_PER_ELEMENT: Final = 1000
_ELEMENTS: Final = 400
# One file of 60 MB, as large as shards are, so that few of its records lie near each other.
_COPIES: Final = 20


def make_bucket(folder: Path) -> Path:
    """Make the bucket in a folder, and return it.

    Its parquet file has a row group for each element, its ArrayRecord file a record.
    """
    bucket, made = folder / BUCKET, folder / "generated"
    bucket.mkdir(parents=True)
    generate(made, profile=Profile(_ELEMENTS, _ROWS_PER_ELEMENT, log_sigma=0))
    [generated] = (made / "parquet").iterdir()
    table = pq.read_table(generated)
    pq.write_table(table, bucket / PARQUET, row_group_size=_ROWS_PER_ELEMENT, store_schema=False)
    records = [
        record
        for shard in sorted(made.glob("train-*.arrayrecord"))
        for record in ArrayRecordReader(str(shard)).read_all()
    ]
    writer = ArrayRecordWriter(str(bucket / ARRAY_RECORD), "group_size:1,uncompressed")
    for record in _COPIES * records:
        writer.write(record)
    writer.close()
    return bucket
