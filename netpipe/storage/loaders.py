"""Places a loader in a storage: `--storage`, by replacing the sources of its Grain pipeline.

As a target: `netpipe.storage.loaders:place object-store my_project/input.py:batches`.
"""

import os
from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any, Final

from netpipe.errors import MisuseError
from netpipe.linting.graph.grain_classes import replace_source
from netpipe.linting.graph.reader import collect_datasets, read_graph
from netpipe.session.targets import resolve
from netpipe.storage.profiles import parse_storage
from netpipe.storage.service import Service
from netpipe.storage.stand_in import Placement, stand_in

_SHARED: Final = "NETPIPE_STORAGE"


def place(loader: Callable[..., Any], storage: str) -> Callable[..., Any]:
    """Return a factory of the same loader in a storage, as `--storage` names it.

    A factory that calls `stand_in` has placed its sources itself. Otherwise the sources of its
    Grain pipeline are replaced.

    Raises:
        MisuseError: The storage is unknown; or, by the factory, no source can be replaced.
    """
    service = _share_service(storage)

    @wraps(loader)
    def make(*arguments: Any, **named: Any) -> Any:
        placement = Placement(service)
        with placement.entered():
            made = loader(*arguments, **named)
        if not placement.is_used:
            _replace_sources(made, service)
        return made

    make.storage = storage  # type: ignore[attr-defined]
    return make


def _replace_sources(made: Any, service: Service) -> None:
    datasets, graph = collect_datasets(made), read_graph(made)
    sources = [datasets[node.id] for node in graph.of_kind("Source")]
    by = partial(stand_in, storage=service)
    if not sources or not all(replace_source(source, by) for source in sources):
        found = "a source that is a stream or computed" if sources else type(made).__name__
        raise MisuseError(
            f"storage {service.profile.name}: the loader must be a Grain pipeline of random-access "
            f"sources, which can be replaced; found {found}. Wrap what your loader factory reads "
            "from: netpipe.storage.stand_in(source)"
        )


@cache
def _share_service(storage: str) -> Service:
    """Return the storage that this process shares with those that it starts."""
    profile = parse_storage(storage)
    name, _, path = os.environ.get(_SHARED, "").rpartition(" ")
    if name == storage:
        return Service(profile, path)
    service = Service(profile)
    os.environ[_SHARED] = f"{storage} {service.path}"
    return service


def __getattr__(name: str) -> Callable[..., Any]:
    """Return the factory that a target names together with its storage and its own target."""
    function, _, rest = name.partition(" ")
    storage, _, target = rest.partition(" ")
    if function != "place" or not target:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return place(resolve(target), storage)
