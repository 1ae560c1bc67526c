"""Files and folders on any file system of pyarrow or fsspec, by their path or URI."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from netpipe.errors import InputError, first_line

_OBJECT_STORES = ("s3", "gcs", "abfs")
_REMOTE_HINT = (
    "Check the bucket, the credentials and the endpoint: "
    "s3://KEY:SECRET@bucket/folder?region=...&endpoint_override=HOST:PORT&scheme=http"
)
PART_SUFFIX = ".part"
_UNKNOWN = "Schemes besides those of pyarrow need fsspec and the package of the file system"


@dataclass(frozen=True)
class Place:
    """A file or a folder; its name is the user's path or URI, without a password."""

    filesystem: fs.FileSystem
    path: str
    name: str

    def __str__(self) -> str:
        return self.name

    def __truediv__(self, name: str) -> "Place":
        stem, mark, query = self.name.partition("?")
        inside = f"{stem.rstrip('/')}/{name}{mark}{query}"
        return replace(self, path=f"{self.path.rstrip('/')}/{name}", name=inside)

    @classmethod
    def local(cls, path: Path) -> "Place":
        """Return the place of a local path."""
        return cls(fs.LocalFileSystem(), os.path.abspath(path), str(path))  # noqa: PTH100

    @property
    def is_local(self) -> bool:
        """Whether the path is on the local file system."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def info(self) -> fs.FileInfo:
        """Return the type, size and modification time; raise an InputError if that fails."""
        try:
            return self.filesystem.get_file_info(self.path)
        except (OSError, pa.ArrowException) as error:
            raise self.error("be readable", error) from error

    def files(self) -> Iterator[tuple["Place", fs.FileInfo]]:
        """Yield the files at any depth in this folder, sorted; none if it does not exist."""
        selector = fs.FileSelector(self.path, recursive=True, allow_not_found=True)
        try:
            found = self.filesystem.get_file_info(selector)
        except (OSError, pa.ArrowException) as error:
            raise self.error("be readable", error) from error
        top = self.path.rstrip("/")
        for info in sorted(found, key=lambda info: info.path.split("/")):
            if info.is_file:
                yield self / info.path.removeprefix(top).strip("/"), info

    def open_input(self) -> pa.NativeFile:
        """Open this file for reading at any offset; raise an OSError if that fails."""
        return self.filesystem.open_input_file(self.path)

    def read(self) -> bytes | None:
        """Return the content of this file, or None if it does not exist."""
        try:
            with self.open_input() as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def write(self, *content: Any) -> None:
        """Replace this file atomically with the given buffers; raise an OSError if that fails."""
        # A local file is renamed once it is complete; an object appears only when complete anyway.
        part = f"{self.path}.{uuid4().hex[:8]}{PART_SUFFIX}" if self.is_local else self.path
        with self.filesystem.open_output_stream(part) as stream:
            for each in content:
                stream.write(pa.py_buffer(each))
        if part != self.path:
            self.filesystem.move(part, self.path)

    def put(self, file: Path) -> None:
        """Copy a local file to this place, unless it has a file of the same size."""
        if self.info().size != file.stat().st_size:
            fs.copy_files(str(file), self.path, fs.LocalFileSystem(), self.filesystem)

    def get(self, file: Path) -> None:
        """Make `file` a hard link to this file if possible, else a copy of it."""
        with suppress(OSError):
            if self.is_local:
                os.link(self.path, file)
                return
        fs.copy_files(self.path, str(file), self.filesystem, fs.LocalFileSystem())

    def delete(self) -> None:
        """Delete this file if it exists."""
        if self.info().is_file:
            self.filesystem.delete_file(self.path)

    def make_folder(self) -> None:
        """Make this folder, unless it is in an object store, which has no folders."""
        if self.filesystem.type_name not in _OBJECT_STORES:
            self.filesystem.create_dir(self.path)

    def error(self, constraint: str, error: Exception) -> InputError:
        """Return an error about this place, with the reason from its file system."""
        reason = first_line(error)
        return InputError(self, "place", constraint, reason, "" if self.is_local else _REMOTE_HINT)


def find_place(word: Path | str) -> Place:
    """Return the place of a path or URI; raise an InputError if no file system accepts the URI."""
    if "://" not in str(word):
        return Place.local(Path(word))
    uri, shown = str(word), re.sub("://[^/@]*@", "://", str(word))
    try:
        filesystem, path = _resolve(uri)
    except (pa.ArrowException, OSError, ValueError, ImportError) as error:
        # A password with an unquoted slash makes the URI invalid.
        shown = re.sub("://.*@", "://", uri)
        reason = first_line(error).replace(uri, shown)
        raise InputError(shown, "URI", "name a file system", reason, _UNKNOWN) from error
    return Place(filesystem, path, path if isinstance(filesystem, fs.LocalFileSystem) else shown)


def _resolve(uri: str) -> tuple[fs.FileSystem, str]:
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
    except pa.ArrowInvalid as error:
        if "nrecognized filesystem" not in str(error):
            raise
        import fsspec

        files, path = fsspec.core.url_to_fs(uri)
        found = fs.PyFileSystem(fs.FSSpecHandler(files)), path
    return found
