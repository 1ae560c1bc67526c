"""Output folders that appear complete or not at all."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from netpipe.data.formats.index import INDEX_NAME, is_index
from netpipe.errors import InputError


@contextmanager
def whole_folder(out: Path, sources: Sequence[Path] = ()) -> Iterator[Path]:
    """Yield an empty folder beside `out` that replaces `out` if the block does not raise.

    Raises:
        InputError: `out` is not new, empty or a prepared folder, is not writable, or holds one of
            the `sources`, the files that the block reads.
    """
    out = out.resolve()
    try:
        if inside := [source for source in sources if out in source.resolve().parents]:
            raise InputError(out, "output folder", "not hold what is read", inside[0])
        if out.is_dir() and any(out.iterdir()) and not is_index(out / INDEX_NAME):
            way_out = "Choose another folder, or remove it"
            raise InputError(out, "output folder", "be new, empty or ours", "other files", way_out)
        if out.exists() and not out.is_dir():
            raise InputError(out, "output folder", "be a folder", "a file")
        out.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise InputError(out, "output folder", "be writable", error.strerror) from error
    try:
        yield building
        # mkdtemp makes folders that only their owner can read.
        building.chmod(0o755)
        _swap(building, out)
    except OSError as error:
        raise InputError(out, "output folder", "be writable", error) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _swap(building: Path, out: Path) -> None:
    """Replace the old folder by the new one; the old one is moved back if that fails."""
    retired = building.with_name(f"{building.name}.old")
    try:
        if out.exists():
            out.replace(retired)
        building.replace(out)
    finally:
        if retired.exists() and not out.exists():
            retired.replace(out)
    shutil.rmtree(retired, ignore_errors=True)
