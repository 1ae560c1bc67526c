"""Place a loader in a storage (`--storage`): replace the sources of its Grain pipeline."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from netpipe.errors import MisuseError
from netpipe.grain_access.grain_classes import replace_source
from netpipe.grain_access.nodes import Node
from netpipe.grain_access.reader import collect_datasets, read_graph
from netpipe.storage.profiles import parse_storage
from netpipe.storage.stand_in import Placement, stand_in


def place(loader: Callable[..., Any], storage: str) -> Callable[..., Any]:
    """Return a factory of the same loader in a storage, named as for `--storage`.

    If the original factory calls `stand_in`, it places the sources itself. Otherwise the sources
    of its Grain pipeline are replaced.

    Raises:
        MisuseError: The storage is unknown. The new factory also raises this error, if it cannot
            replace a source.
    """
    is_local = parse_storage(storage).name.startswith("local")

    @wraps(loader)
    def make(*arguments: Any, **named: Any) -> Any:
        placement = Placement(storage)
        with placement.entered():
            made = loader(*arguments, **named)
            if not placement.sources:
                _replace_sources(made, storage)
        return made

    # The attribute by which a loader factory declares its storage to the linter.
    make.netpipe_storage = "local" if is_local else "remote"  # type: ignore[attr-defined]
    return make


def _replace_sources(made: Any, storage: str) -> None:
    datasets = collect_datasets(made)
    leaves = [node for node in read_graph(made).nodes if not node.parents]
    if not leaves or not all(
        _is_stored(leaf) and replace_source(datasets[leaf.id], stand_in) for leaf in leaves
    ):
        found = "a source that is a stream, computed or a list" if leaves else type(made).__name__
        raise MisuseError(
            f"storage {storage}: the loader must be a Grain pipeline of random-access sources, "
            f"which can be replaced; found {found}. Before the factory returns, wrap its "
            "sources: netpipe.storage.stand_in(source)"
        )


def _is_stored(leaf: Node) -> bool:
    """Return whether a leaf may read from a storage; a list often holds file names for a map."""
    return leaf.kind == "Source" and not str(leaf.parameters.get("source")).startswith("builtins.")
