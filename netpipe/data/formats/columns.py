"""Measurements in Arrow columns, checked value by value, as numbers."""

import warnings
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from netpipe.data.formats.addresses import NO_ADDRESS, OTHER_FAMILY, AddressTable, is_translated
from netpipe.data.formats.measurements import MEASUREMENT, MeasurementArray
from netpipe.data.formats.rtt import encode_rtt
from netpipe.data.sampling.counter_rng import fold_key
from netpipe.errors import InputError


class MergedProbesWarning(UserWarning):
    """Measurements without `prb_id` come from private addresses, which many probes share."""


@dataclass(frozen=True)
class MeasurementColumns:
    """Some rows of measurements, as they are in a file.

    Attributes:
        where: What an error names: the file, and the record in it if it has records.
        first_row: The number of their first row there.
        columns: The columns of `netpipe.data.formats.schema`, each of its type.
    """

    where: object
    first_row: int
    columns: pa.RecordBatch

    def measurements(self, addresses: AddressTable) -> MeasurementArray:
        """Check every value and return the measurements.

        Args:
            addresses: Numbers the addresses; grows.

        Raises:
            InputError: A value is not what it must be.
        """
        for name in self.columns.schema.names:
            self._require(name, "not be null", np.asarray(self.columns[name].is_valid()))
        version = self._numbers("ip_version")
        self._require("ip_version", "be 4 or 6", (version == 4) | (version == 6))
        rtt_ms = self._numbers("rtt").astype(np.float64)
        self._require("rtt", "be finite (negative means failed)", np.isfinite(rtt_ms))
        out = np.empty(self.columns.num_rows, MEASUREMENT)
        out["time_us"] = self._time_us()
        out["rtt_code"] = encode_rtt(rtt_ms)
        out["source"] = self._addresses("src_addr", version, addresses)
        out["destination"] = self._addresses("dst_addr", version, addresses)
        out["probe"] = self._probes(out["source"], addresses)
        return out

    def _require(self, name: str, constraint: str, good: NDArray[np.bool_]) -> None:
        if good.all():
            return
        row = int(np.argmin(good))
        found = repr(self.columns[name][row].as_py())
        field = f"column {name}, row {self.first_row + row},"
        raise InputError(self.where, field, constraint, found)

    def _numbers(self, name: str) -> NDArray[np.generic]:
        return np.asarray(self.columns[name].to_numpy(zero_copy_only=False))

    def _time_us(self) -> NDArray[np.int64]:
        column = self.columns["event_time"]
        ticks = column.cast(pa.int64()).to_numpy()
        return np.asarray(ticks // 1000 if column.type.unit == "ns" else ticks)

    def _addresses(
        self, name: str, version: NDArray[np.generic], addresses: AddressTable
    ) -> NDArray[np.int32]:
        numbers = addresses.number_column(self.columns[name], version)
        self._require(name, "be an IP address, or empty", numbers != NO_ADDRESS)
        self._require(name, "be of the family in ip_version", numbers != OTHER_FAMILY)
        return numbers

    def _probes(self, source: NDArray[np.int32], addresses: AddressTable) -> NDArray[np.int64]:
        if "prb_id" in self.columns.schema.names:
            return self._numbers("prb_id").astype(np.int64)
        distinct, which = np.unique(source, return_inverse=True)
        octets = addresses.octets(distinct)
        if is_translated(octets).any():
            warnings.warn(
                # Without the file's name, so that it is shown once for all files.
                "without a column prb_id a probe is its src_addr, and private addresses merge "
                "unrelated probes",
                MergedProbesWarning,
                stacklevel=2,
            )
        # 16 bytes do not fit into a probe's number: their hash does.
        low, high = octets.view("<i8").T
        keys = fold_key(addresses.families(distinct).astype(np.int64), low, high)
        return keys[which].view(np.int64)
