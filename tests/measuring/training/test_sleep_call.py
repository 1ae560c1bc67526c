"""The C structures of the emulated accelerator, compared with the installed jaxlib's."""

import ctypes
import re
import time
from pathlib import Path

import jaxlib
import numpy as np
import pytest

from netpipe.measuring.training import emulated_step

HEADER = Path(jaxlib.__file__).parent / "include" / "xla" / "ffi" / "api" / "c_api.h"

HEAD = "struct_size extension_start"
# Our structure, XLA's name for it, and XLA's names for the declared fields.
LAYOUTS: list[tuple[type[ctypes.Structure], str, str]] = [
    (emulated_step._EXTENSION, "XLA_FFI_Extension_Base", "struct_size type next"),
    (emulated_step._VERSION, "XLA_FFI_Api_Version", f"{HEAD} major_version minor_version"),
    (emulated_step._METADATA, "XLA_FFI_Metadata", "struct_size api_version"),
    (emulated_step._METADATA_EXTENSION, "XLA_FFI_Metadata_Extension", "extension_base metadata"),
    (emulated_step._BUFFER, "XLA_FFI_Buffer", f"{HEAD} dtype data"),
    (emulated_step._ARGUMENTS, "XLA_FFI_Args", f"{HEAD} size types args"),
    (emulated_step._CALL_FRAME, "XLA_FFI_CallFrame", f"{HEAD} api ctx stage args"),
]
RENAMED = {
    "XLA_FFI_Extension_Type": "XLA_FFI_InternalExtension_Type",
    "XLA_FFI_Extension_Base": "XLA_FFI_InternalExtension",
}
BYTES = {
    "size_t": ctypes.sizeof(ctypes.c_size_t),
    "int64_t": 8,
    "int": ctypes.sizeof(ctypes.c_int),
    "XLA_FFI_DataType": ctypes.sizeof(ctypes.c_int),
    "XLA_FFI_ExecutionStage": ctypes.sizeof(ctypes.c_int),
    "XLA_FFI_Extension_Type": ctypes.sizeof(ctypes.c_int),
    **{name: ctypes.sizeof(ours) for ours, name, _ in LAYOUTS},
}


@pytest.fixture(scope="module")
def header() -> str:
    """XLA's header of its foreign function interface, without comments.

    Since jaxlib 0.12 an extension is called an internal extension, with the same layout.
    """
    if not HEADER.is_file():
        pytest.skip("this jaxlib comes without its headers")
    text = re.sub(r"//.*", "", HEADER.read_text())
    for old, new in RENAMED.items():
        text = text.replace(new, old)
    return text


def fields_of(header: str, name: str) -> list[tuple[str, int]]:
    """Return the name and the bytes of each field of a structure, 0 for an unknown type."""
    body = re.search(rf"struct {name} {{(.*?)}}", header, re.DOTALL)
    assert body is not None, f"{name} is gone from {HEADER}"
    pointer = ctypes.sizeof(ctypes.c_void_p)
    return [
        (field, pointer if "*" in kind else BYTES.get(kind.split()[-1], 0))
        for kind, field in re.findall(r"([\w\s]+?[\s*]+)(\w+);", body[1])
    ]


@pytest.mark.parametrize(("ours", "name", "fields"), LAYOUTS, ids=[row[1] for row in LAYOUTS])
def test_a_structure_is_laid_out_as_in_the_header(
    header: str, ours: type[ctypes.Structure], name: str, fields: str
) -> None:
    """The declared fields have XLA's order and sizes."""
    theirs = fields_of(header, name)[: len(ours._fields_)]
    sizes = [ctypes.sizeof(field[1]) for field in ours._fields_]
    assert theirs == list(zip(fields.split(), sizes, strict=True))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("XLA_FFI_Extension_Metadata", emulated_step._METADATA_TYPE),
        ("XLA_FFI_ExecutionStage_EXECUTE", emulated_step._EXECUTE_STAGE),
    ],
)
def test_a_constant_has_the_value_of_the_header(header: str, name: str, value: int) -> None:
    """The handler compares with XLA's values."""
    assert re.search(rf"\b{name} = {value}\b", header)


def test_the_interface_has_the_version_that_was_declared(header: str) -> None:
    """XLA refuses a handler for another major version."""
    major, minor = emulated_step._API_VERSION
    assert re.search(rf"#define XLA_FFI_API_MAJOR {major}\b", header)
    found = re.search(r"#define XLA_FFI_API_MINOR (\d+)", header)
    assert found is not None
    assert minor <= int(found[1])


def call_frame(deadline_ns: int, stage: int) -> ctypes.Structure:
    """Make a call of the handler with the deadline as its first argument."""
    deadline = np.array([deadline_ns], np.uint64)
    buffer = emulated_step._BUFFER(data=deadline.ctypes.data)
    values = (ctypes.POINTER(emulated_step._BUFFER) * 1)(ctypes.pointer(buffer))
    arguments = emulated_step._ARGUMENTS(size=1, values=values)
    frame = emulated_step._CALL_FRAME(stage=stage, arguments=arguments)
    frame.kept_alive = deadline
    return frame


def test_the_handler_sleeps_until_the_deadline() -> None:
    """The handler returns at the deadline, or at once if that has passed."""
    deadline_ns = time.monotonic_ns() + 20_000_000
    frame = call_frame(deadline_ns, emulated_step._EXECUTE_STAGE)
    emulated_step._sleep_until(ctypes.pointer(frame))
    assert time.monotonic_ns() >= deadline_ns
    emulated_step._sleep_until(ctypes.pointer(frame))


def test_the_handler_sleeps_in_no_other_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """The handler does not wait when XLA prepares and initialises."""
    monkeypatch.setattr(time, "sleep", None)  # sleeping would fail
    for stage in range(emulated_step._EXECUTE_STAGE):
        emulated_step._sleep_until(ctypes.pointer(call_frame(2**62, stage)))


def test_the_handler_tells_its_version() -> None:
    """The handler answers a request for metadata with the version of its interface."""
    metadata = emulated_step._METADATA(api_version=emulated_step._VERSION(major=-1, minor=-1))
    extension = emulated_step._METADATA_EXTENSION(
        emulated_step._EXTENSION(type=emulated_step._METADATA_TYPE), ctypes.pointer(metadata)
    )
    frame = emulated_step._CALL_FRAME(
        extension_start=ctypes.cast(
            ctypes.pointer(extension), ctypes.POINTER(emulated_step._EXTENSION)
        )
    )
    emulated_step._sleep_until(ctypes.pointer(frame))
    version = metadata.api_version
    assert (version.major, version.minor) == emulated_step._API_VERSION
