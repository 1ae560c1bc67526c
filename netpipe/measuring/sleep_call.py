"""A custom call for XLA's CPU runtime that sleeps until a deadline; no compiler needed."""

import ctypes
import errno
import time
from functools import cache
from typing import Any

import jax

_TARGET = "netpipe_sleep_until"
_NS = 1_000_000_000

# The C structures of XLA's foreign function interface (xla/ffi/api/c_api.h, version 0.3), as far
# as a handler needs them: up to the last field that it uses.


def _fields(**kinds: Any) -> list[tuple[str, Any]]:
    return list(kinds.items())


_SIZE, _INT, _POINTER = ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p


class _Extension(ctypes.Structure):
    _fields_ = _fields(struct_size=_SIZE, type=_INT, next=_POINTER)


class _Version(ctypes.Structure):
    _fields_ = _fields(struct_size=_SIZE, extension_start=_POINTER, major=_INT, minor=_INT)


class _Metadata(ctypes.Structure):
    _fields_ = _fields(struct_size=_SIZE, api_version=_Version)


class _MetadataExtension(ctypes.Structure):
    _fields_ = _fields(base=_Extension, metadata=ctypes.POINTER(_Metadata))


class _Buffer(ctypes.Structure):
    _fields_ = _fields(struct_size=_SIZE, extension_start=_POINTER, dtype=_INT, data=_POINTER)


class _Arguments(ctypes.Structure):
    _fields_ = _fields(
        struct_size=_SIZE,
        extension_start=_POINTER,
        size=ctypes.c_int64,
        types=_POINTER,
        values=ctypes.POINTER(ctypes.POINTER(_Buffer)),
    )


class _CallFrame(ctypes.Structure):
    _fields_ = _fields(
        struct_size=_SIZE,
        extension_start=ctypes.POINTER(_Extension),
        api=_POINTER,
        context=_POINTER,
        stage=_INT,
        arguments=_Arguments,
    )


class _Timespec(ctypes.Structure):
    _fields_ = _fields(seconds=ctypes.c_long, nanoseconds=ctypes.c_long)


_METADATA_EXTENSION = 1
_EXECUTE_STAGE = 3
# The version of a handler that uses only these fields.
_API_VERSION = (0, 1)
_TIMER_ABSTIME = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _sleep_until(frame: Any) -> None:
    """Answer XLA's question for metadata, or sleep until the deadline in the first argument."""
    call = frame.contents
    if call.extension_start and call.extension_start.contents.type == _METADATA_EXTENSION:
        extension = ctypes.cast(call.extension_start, ctypes.POINTER(_MetadataExtension))
        version = extension.contents.metadata.contents.api_version
        version.major, version.minor = _API_VERSION
        return
    if call.stage != _EXECUTE_STAGE:
        return
    deadline = ctypes.c_uint64.from_address(call.arguments.values[0].contents.data).value
    moment = _Timespec(*divmod(deadline, _NS))
    interrupted = errno.EINTR
    while interrupted == errno.EINTR:
        interrupted = _libc.clock_nanosleep(
            time.CLOCK_MONOTONIC, _TIMER_ABSTIME, ctypes.byref(moment), None
        )


_HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_CallFrame))(_sleep_until)


@cache
def register_sleep_target() -> str:
    """Teach XLA's CPU runtime the custom call and return its name.

    Its operands are the deadline on `CLOCK_MONOTONIC` in nanoseconds, uint32 (2,) in memory order,
    and whatever must be computed before; its result is not written and holds anything.
    """
    jax.ffi.register_ffi_target(
        _TARGET, jax.ffi.pycapsule(ctypes.cast(_HANDLER, ctypes.c_void_p)), platform="cpu"
    )
    return _TARGET
