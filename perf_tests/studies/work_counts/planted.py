"""Changes that make this repository's pipeline do more work, and the causes to name."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from netpipe.files.temporary_folders import temporary_folder
from netpipe.git import git


@dataclass(frozen=True)
class PlantedChange:
    """A change of one line.

    Attributes:
        line: The line in `file`, without its indentation, that `replacement` replaces; there, a
            newline is followed by that indentation.
        kind: The kind of work that rises.
        cause: Text that the reason must contain.
    """

    name: str
    file: str
    line: str
    replacement: str
    kind: str
    cause: str

    def plant(self, checkout: Path) -> None:
        """Change the file in a checkout."""
        path = checkout / self.file
        lines = path.read_text("utf-8").splitlines()
        (number,) = (n for n, line in enumerate(lines) if line.strip() == self.line)
        indentation = lines[number].removesuffix(self.line)
        lines[number] = "\n".join(indentation + line for line in self.replacement.splitlines())
        path.write_text("\n".join(lines) + "\n", "utf-8")


_PACK: Final = "while len((cuts := cut(contexts, sequences, room)).segments) < sequences:"
_READ: Final = "found.append((self._readers[path].read([index])[0], where))"
_BEHIND_WORKERS: Final = "return sequences.mp_prefetch(workers, _freeze_imports).map(make_batch)"
_COPY: Final = "lambda batch: {name: array.copy() for name, array in batch.items()}"

CHANGES: Final = (
    PlantedChange(
        "second call of cut", "netpipe/workload/tokens/packing.py", _PACK,
        f"cut(contexts, sequences, room)\n{_PACK}",
        "calls", "netpipe.workload.tokens.packing.cut: 2.",
    ),
    PlantedChange(
        "one more call per record", "netpipe/workload/formats/shards.py", _READ,
        f"abs(index)\n{_READ}",
        "calls", "builtins.abs",
    ),
    PlantedChange(
        "one more copy of a batch", "netpipe/workload/pipeline.py", _BEHIND_WORKERS,
        f"{_BEHIND_WORKERS}.map({_COPY})",
        "allocated_bytes", "netpipe.workload.pipeline.<",
    ),
    PlantedChange(
        "2% more bytes read", "netpipe/workload/formats/shards.py", _READ,
        f"if index % 50 == 0: self._readers[path].read([index])\n{_READ}",
        "read_bytes", "the process reads",
    ),
    PlantedChange(
        "a wider dtype", "netpipe/workload/tokens/batches.py",
        '"inputs": tokens[:, :-1].astype(np.int32),',
        '"inputs": tokens[:, :-1].astype(np.int64),',
        "batch_bytes", "int64[128,1024] instead of int32[128,1024]",
    ),
    PlantedChange(
        "whole batches sent by workers", "netpipe/workload/pipeline.py", _BEHIND_WORKERS,
        "return sequences.map(make_batch).mp_prefetch(workers)",
        "sent_bytes", "a batch crosses processes as 3.15 MB instead of 265 kB",
    ),
)  # fmt: skip


@contextmanager
def checkout_with(change: PlantedChange, repository: Path) -> Iterator[Path]:
    """Yield a clone of the repository's commit in which a change is planted, uncommitted."""
    with temporary_folder("planted") as folder:
        clone = folder / "clone"
        git(repository, "clone", "--quiet", "--no-hardlinks", str(repository), str(clone))
        change.plant(clone)
        yield clone
