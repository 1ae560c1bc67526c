"""Output folders that are written completely or not at all, and hold nothing but a data set.

A new folder is built beside its final place and renamed. An existing folder may be a mount point:
it gets the new files under new names, and replacing the index then changes the data set. Uploads to
another file system work in the same way.
"""

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath

from netpipe.errors import InputError, first_line
from netpipe.files.temporary_folders import OWN_NAME, locked, remove_abandoned, temporary_folder
from netpipe.files.whole_file import sync_names, write_new
from netpipe.workload.formats.index import INDEX_NAME, is_data_file, load_index
from netpipe.workload.formats.places import Place
from netpipe.workload.preparation.work_folder import WORK_NAME

# Lists the files of both data sets during a replacement, in case this run is killed.
_REPLACING = ".netpipe-replacing.txt"
_UPLOADED_AT_ONCE = 8
# `lost+found` is at the root of an ext file system.
_IGNORED = re.compile(
    rf"lost\+found|{re.escape(_REPLACING)}|{OWN_NAME.pattern}|{WORK_NAME.pattern}"
)


@contextmanager
def whole_folder(out: Path, sources: Sequence[Path] = ()) -> Iterator[Path]:
    """Yield an empty folder; the data set written there then replaces the one in `out`.

    The block must save the index of the data set, which lists the files.

    Raises:
        InputError: `out` holds something besides a netpipe data set, is not writable, or holds one
            of the `sources`, the files that the block reads.
    """
    # Unlike the methods of Path, these functions do not raise for a link to itself.
    out = Path(os.path.realpath(out))
    missing = [parent for parent in out.parents if not os.path.lexists(parent)]
    try:
        _require_replaceable(out, sources)
        out.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(out.parent)  # where a killed run was making `out`
        with temporary_folder("output", out if out.is_dir() else out.parent) as folder:
            building = folder / "data"
            building.mkdir()  # with the user's default mode, unlike `folder`
            yield building
            _sync_files(building)
            _put_into_place(building, out)
    except OSError as error:
        found = error.strerror or error
        raise InputError(out, "output folder", "be writable", found) from error
    finally:
        with suppress(OSError):
            for parent in missing:
                parent.rmdir()


def _require_replaceable(out: Path, sources: Sequence[Path]) -> None:
    if inside := [source for source in sources if out in source.resolve().parents]:
        raise InputError(out, "output folder", "not contain the sources", inside[0])
    if out.is_dir():
        with locked(out):
            _clean_and_check(out)
    elif os.path.lexists(out):
        raise InputError(out, "output folder", "be a folder", "a file")


def _clean_and_check(out: Path) -> None:
    """Clean up after an interrupted replacement, and refuse files that no index lists."""
    way_out = "Choose another folder"
    try:
        _remove_replaced(out)
        ours = _data_files(out)
    except InputError as error:
        raise InputError(out, "output folder", "have a whole index", error, way_out) from error
    for path in _list_foreign_files(out, ours):
        constraint = "hold nothing but a data set of netpipe"
        raise InputError(out, "output folder", constraint, path.relative_to(out), way_out)


def _data_files(folder: Path) -> set[Path]:
    index = folder / INDEX_NAME
    if not index.exists():
        return set()
    return {index, *(folder / file for file in load_index(folder).files)}


def _list_foreign_files(folder: Path, ours: set[Path]) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and any(path in file.parents for file in ours):
            yield from _list_foreign_files(path, ours)
        elif path not in ours and not _IGNORED.fullmatch(path.name):
            yield path


def _put_into_place(building: Path, out: Path) -> None:
    if not out.is_dir():
        building.rename(out)
        sync_names(out.parent)
        return
    with locked(out):
        _clean_and_check(out)
        new = load_index(building).files
        old = (path.relative_to(out) for path in _data_files(out))
        write_new(building / _REPLACING, "\n".join(map(str, (*new, *old))).encode())
        try:
            for file in (PurePath(_REPLACING), *new, PurePath(INDEX_NAME)):
                (out / file).parent.mkdir(exist_ok=True)
                # Make each name durable before the next: the index, moved last, names the others.
                sync_names((building / file).replace(out / file).parent)
        finally:
            _remove_replaced(out)


def _remove_replaced(out: Path) -> None:
    """Remove the files of a replacement, complete or not, that the index does not list."""
    listed = out / _REPLACING
    if not listed.exists():
        return
    names = map(PurePath, listed.read_text(encoding="utf-8", errors="replace").splitlines())
    for path in {out / name for name in names if is_data_file(name)} - _data_files(out):
        path.unlink(missing_ok=True)
        if path.parent != out:
            with suppress(OSError):
                path.parent.rmdir()
    listed.unlink()


def _sync_files(folder: Path) -> None:
    """Flush a folder to disk, so that it survives a power failure."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_names(path)
        else:
            with path.open("rb") as stream:
                os.fsync(stream.fileno())
    sync_names(folder)


@contextmanager
def remote_folder(out: Place, scratch: Path) -> Iterator[Path]:
    """Yield an empty folder in `scratch`; the data set in it is then uploaded, the index last.

    Raises:
        InputError: `out` cannot be reached, or holds something besides a netpipe data set.
    """
    with temporary_folder("output", scratch) as folder:
        with _name_output(out):
            before = _remote_files(out, folder)
            foreign = [path for path, _ in out.files() if path not in before]
        if foreign:
            constraint = "hold nothing but a data set of netpipe"
            raise InputError(out, "output folder", constraint, foreign[0], "Choose another one")
        yield folder
        with _name_output(out):
            _upload(folder, out, before)


@contextmanager
def _name_output(out: Place) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise out.error("be writable", error) from error


def _remote_files(out: Place, folder: Path) -> list[Place]:
    """Return the files of the current data set, and those of an interrupted upload."""
    names = [INDEX_NAME, _REPLACING]
    if (index := (out / INDEX_NAME).read()) is not None:
        (folder / INDEX_NAME).write_bytes(index)
        names += map(str, load_index(folder).files)
        (folder / INDEX_NAME).unlink()
    listed = ((out / _REPLACING).read() or b"").decode(errors="replace").splitlines()
    names += [name for name in listed if is_data_file(PurePath(name))]
    return [out / name for name in dict.fromkeys(names)]


def _upload(folder: Path, out: Place, before: Sequence[Place]) -> None:
    out.make_folder()
    names = list(map(str, load_index(folder).files))
    listed = [*names, *(old.path.removeprefix(out.path).strip("/") for old in before)]
    (out / _REPLACING).write("\n".join(listed).encode())
    with ThreadPoolExecutor(_UPLOADED_AT_ONCE) as executor:
        list(executor.map(lambda name: (out / name).put(folder / name), names))
    (out / INDEX_NAME).write((folder / INDEX_NAME).read_bytes())
    try:
        for old in before:
            if old not in [out / name for name in (*names, INDEX_NAME, _REPLACING)]:
                old.delete()
    except OSError as error:
        way_out = f"The new data set is complete. Remove the files that {INDEX_NAME} does not list"
        reason = first_line(error)
        raise InputError(out, "replaced data set", "be removable", reason, way_out) from error
    # Not deleted, since pyarrow would then make a folder object, which some S3 servers refuse.
    (out / _REPLACING).write(b"")
