"""The columns of measurements in parquet: their names, types and units."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from netpipe.errors import InputError


@dataclass(frozen=True)
class Column:
    """One column of a parquet file of measurements.

    Attributes:
        name: Its name.
        wanted: The accepted types in words, to follow "must be".
        accepts: Whether a type is one of them.
        required: Whether a file may go without it.
    """

    name: str
    wanted: str
    accepts: Callable[[pa.DataType], bool]
    required: bool = True


def _is_timestamp(kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and kind.unit in ("us", "ns")


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


EVENT_TIME = Column("event_time", "a timestamp in us or ns (UTC)", _is_timestamp)
SRC_ADDR = Column("src_addr", "a string", _is_text)
DST_ADDR = Column("dst_addr", "a string", _is_text)
IP_VERSION = Column("ip_version", "an integer", pa.types.is_integer)
RTT = Column("rtt", "a floating-point number (milliseconds)", pa.types.is_floating)
PRB_ID = Column("prb_id", "an integer", pa.types.is_integer, required=False)

COLUMNS = (EVENT_TIME, SRC_ADDR, DST_ADDR, IP_VERSION, RTT, PRB_ID)


def check_columns(where: object, schema: pa.Schema) -> list[str]:
    """Check that measurements have every column once, each of its type; others are ignored.

    Returns:
        The names of our columns that are there.

    Raises:
        InputError: A column is missing, is there twice, or has another type.
    """
    for column in COLUMNS:
        kinds = [field.type for field in schema if field.name == column.name]
        if len(kinds) > 1 or (column.required and not kinds):
            found = f"{len(kinds)} times" if kinds else ", ".join(schema.names) or "no column"
            raise InputError(where, f"column {column.name}", "be there once", found)
        for kind in kinds:
            if not column.accepts(kind):
                raise InputError(where, f"column {column.name}", f"be {column.wanted}", kind)
    return [column.name for column in COLUMNS if column.name in schema.names]
