"""Internet addresses: each distinct text is parsed once and gets a number."""

import socket
from ipaddress import ip_network
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

ADDRESS_BYTES = 16
ADDRESS = np.dtype([("octets", "u1", ADDRESS_BYTES), ("family", "u1")])
"""An address in network order, IPv4 in the first 4 bytes, and its IP version, 4 or 6."""

EMPTY_IPV4 = 0
EMPTY_IPV6 = 1
NO_ADDRESS = -1
OTHER_FAMILY = -2

# Private networks (RFC 1918, RFC 6598): many hosts behind NAT share each address.
_TRANSLATED = tuple(
    ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")
)


class AddressTable:
    """The distinct addresses seen so far, numbered in order of appearance.

    An empty string is an unknown address, stored as zeros: number 0 for IPv4 and 1 for IPv6.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all addresses."""
        self._number_of: dict[str, int] = {"": EMPTY_IPV4}
        self._packed: list[bytes] = [bytes(4), bytes(ADDRESS_BYTES)]

    def __len__(self) -> int:
        return len(self._packed)

    def number_column(
        self, column: "pa.Array[Any]", ip_version: NDArray[np.generic]
    ) -> NDArray[np.int32]:
        """Return the number of each address in a column of strings (n,) without nulls, int32 (n,).

        An invalid string becomes `NO_ADDRESS`, an address of the other IP version `OTHER_FAMILY`.
        """
        encoded = column.dictionary_encode()
        which = encoded.indices.to_numpy()
        texts = encoded.dictionary.to_pylist()
        distinct = np.array([self._number(text) for text in texts], np.int32)
        numbers = distinct[which]
        numbers[(numbers == EMPTY_IPV4) & (ip_version == 6)] = EMPTY_IPV6
        family = np.where(numbers == EMPTY_IPV6, 6, self._families(distinct)[which])
        return np.where((numbers >= 0) & (family != ip_version), OTHER_FAMILY, numbers)

    def take(self, numbers: NDArray[np.signedinteger[Any]]) -> NDArray[np.void]:
        """Return the numbered addresses, (numbers,) of dtype `ADDRESS`."""
        padded = b"".join(self._packed[number].ljust(ADDRESS_BYTES, b"\0") for number in numbers)
        taken = np.empty(len(numbers), ADDRESS)
        taken["octets"] = np.frombuffer(padded, np.uint8).reshape(-1, ADDRESS_BYTES)
        taken["family"] = self._families(numbers)
        return taken

    def _families(self, numbers: NDArray[np.signedinteger[Any]]) -> NDArray[np.int64]:
        """Return the IP version of each numbered address; 4 for `NO_ADDRESS`."""
        lengths = [len(self._packed[max(number, 0)]) for number in numbers]
        return np.where(np.array(lengths, np.int8) == ADDRESS_BYTES, 6, 4)

    def _number(self, text: str | None) -> int:
        if text is None:
            return NO_ADDRESS
        if text not in self._number_of:
            family = socket.AF_INET6 if ":" in text else socket.AF_INET
            try:
                self._packed.append(socket.inet_pton(family, text))
            except (OSError, ValueError):  # ValueError: a NUL or a character outside ASCII
                return NO_ADDRESS
            self._number_of[text] = len(self._packed) - 1
        return self._number_of[text]


Addresses = AddressTable | NDArray[np.void]
"""Addresses of dtype `ADDRESS` that `take` returns by number."""


def is_translated(octets: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return whether each IPv4 address, uint8 (n, 16), is private, bool (n,)."""
    word = np.ascontiguousarray(octets[:, :4]).view(">u4")[:, 0]
    inside = np.zeros(len(word), np.bool_)
    for network in _TRANSLATED:
        inside |= (word >= int(network[0])) & (word <= int(network[-1]))
    return inside
