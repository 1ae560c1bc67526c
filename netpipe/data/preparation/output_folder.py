"""An output folder that appears whole or not at all."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from netpipe.data.formats.index import INDEX_NAME, is_index
from netpipe.errors import InputError


@contextmanager
def whole_folder(out: Path, sources: Sequence[Path] = ()) -> Iterator[Path]:
    """Give a temporary folder that becomes `out` when the block ends without an error.

    Args:
        out: The folder to make. One that we made before is replaced, once the new one is whole.
        sources: Files that are read meanwhile; none may lie in `out`.

    Yields:
        An empty folder beside `out`; it is removed when the block raises.

    Raises:
        InputError: `out` is not ours to replace, or nothing can be written there.
    """
    out = out.resolve()
    try:
        _require_replaceable(out, sources)
        out.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    except OSError as error:
        raise InputError(out, "output folder", "be writable", error.strerror) from error
    try:
        yield building
        building.chmod(0o755)  # mkdtemp keeps everybody else out
        _swap(building, out)
    except OSError as error:
        raise InputError(out, "output folder", "be writable", error) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _require_replaceable(out: Path, sources: Sequence[Path]) -> None:
    inside = [source for source in sources if out in source.resolve().parents]
    if inside:
        raise InputError(out, "output folder", "not hold what is read", inside[0])
    if out.is_dir() and any(out.iterdir()) and not is_index(out / INDEX_NAME):
        way_out = "Choose another folder, or remove it"
        raise InputError(out, "output folder", "be new, empty or ours", "other files", way_out)
    if out.exists() and not out.is_dir():
        raise InputError(out, "output folder", "be a folder", "a file")


def _swap(building: Path, out: Path) -> None:
    """Move the new folder into the place of the old one, which is removed last, or moved back."""
    retired = building.with_name(f"{building.name}.old")
    try:
        if out.exists():
            out.replace(retired)
        building.replace(out)
    finally:
        if retired.exists() and not out.exists():
            retired.replace(out)
    shutil.rmtree(retired, ignore_errors=True)
