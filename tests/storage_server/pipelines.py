"""Grain pipelines over the bucket, through the server or over local files in a stand-in."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import grain
from array_record.python.array_record_data_source import ArrayRecordDataSource
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem

from tests.storage_server.data import ARRAY_RECORD
from tests.storage_server.sources import RecordRanges, RowGroups, connect, index_records

BATCH_ELEMENTS: Final = 8
ENDPOINT: Final = "STORAGE_SERVER_ENDPOINT"


def open_local(bucket: Path) -> FileSystem:
    """Return the bucket as local files."""
    return SubTreeFileSystem(str(bucket), LocalFileSystem())


SOURCES: Final[Mapping[str, Callable[[FileSystem, Path], Any]]] = {
    "parquet, columns read ahead": lambda files, _: RowGroups(files),
    "parquet, pyarrow's default": lambda files, _: RowGroups(files, is_read_ahead=False),
    "ArrayRecord, ranges": lambda files, bucket: RecordRanges(
        files, list(index_records(bucket / ARRAY_RECORD))
    ),
    "ArrayRecord, mounted": lambda _, bucket: ArrayRecordDataSource(str(bucket / ARRAY_RECORD)),
}
"""Each takes the bucket as files of pyarrow, and as a folder in which records are found."""


def make_pipeline(source: Any, reads_in_flight: int, seed: int = 0) -> grain.IterDataset[Any]:
    """Return endless batches of a source, as lists, read by `threads` threads."""
    options = grain.ReadOptions(reads_in_flight, 2 * reads_in_flight)
    elements = grain.MapDataset.source(source).shuffle(seed).repeat()
    return elements.to_iter_dataset(options).batch(BATCH_ELEMENTS, batch_fn=list)


def loader() -> grain.IterDataset[Any]:
    """Return a pipeline over the server that the environment names, with four reads in flight."""
    source = RowGroups(connect(os.environ[ENDPOINT], io_threads=64))
    return make_pipeline(source, reads_in_flight=4)
