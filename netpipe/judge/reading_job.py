"""The job of a session that reads a loader's batches and digests them."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any, Final

import jax

from netpipe.clock import Clock
from netpipe.errors import MisuseError
from netpipe.grain_access.batch_digests import digest, digest_rows
from netpipe.grain_access.loader_variants import choose_workers, takes_parameters, with_one_epoch
from netpipe.grain_access.nodes import module_name
from netpipe.grain_access.reader import collect_datasets, find_held_datasets
from netpipe.jobs.heartbeat import Watch
from netpipe.jobs.targets import Factories
from netpipe.jobs.watchdog import Watchdog
from netpipe.judge.reading import FIRST, SECOND, WORKERS, ReadRequest
from netpipe.measuring.loader_puller import close_with_timeout

_WORKERS: Final = (0, 2)
_SHARDS: Final = 2
_END: Final = object()


def read_loader(request: ReadRequest, factories: Factories, _: ExitStack) -> dict[str, Any]:
    """Read a loader's first batches, a later epoch, and variants with other workers and shards.

    The later epoch is the second iteration of a loader that ends. Of any other loader, one epoch is
    read too, if there is a way to make it end.
    """
    factory: Callable[..., Any] = factories.loader
    made = list[Any]()

    def make() -> Any:
        if not made or hasattr(made[0], "__next__"):
            made[:] = [factory()]
        return made[0]

    def list_variants(*, ended: bool) -> dict[str, Callable[[], Any]]:
        found = {SECOND: make} if ended else {"one epoch": with_one_epoch(factory)}
        if takes_parameters(factory, "workers"):
            found |= {f"{each}{WORKERS}": partial(factory, workers=each) for each in _WORKERS}
        if takes_parameters(factory, "shard_index", "shard_count"):
            for shard in range(_SHARDS):
                of_shard = partial(factory, shard_index=shard, shard_count=_SHARDS)
                found[f"shard {shard} of {_SHARDS}"] = with_one_epoch(of_shard)
        return found

    with Watchdog(request) as watch:
        if request.workers is not None:
            factory = choose_workers(factory, request.workers, str(request.targets["loader"]))
        first = make if request.shuffles else partial(_make_unshuffled, factory)
        passes = {FIRST: _read(request, watch, first)}
        if request.shuffles and request.has_variants:
            for name, variant in list_variants(ended=passes[FIRST]["ended"]).items():
                passes[name] = _read(request, watch, variant)
    ended = (name for name in (FIRST, "one epoch") if passes.get(name, {}).get("ended"))
    return {"read": {"passes": passes, "epoch_pass": next(ended, "")}}


def _make_unshuffled(factory: Callable[..., Any]) -> Any:
    """Return a loader that does not shuffle; raise a MisuseError if that cannot be known."""
    made = with_one_epoch(factory, shuffles=False)()
    # A dataset that is made later, such as by a generator, shuffles as usual.
    is_of_grain = module_name(type(made)).startswith("grain.") or collect_datasets(made)
    if not (is_of_grain or find_held_datasets(made) or takes_parameters(factory, "shuffle")):
        raise MisuseError(
            "it returns no Grain dataset and takes no parameter shuffle: commit one of these, and "
            "judge against that commit"
        )
    return made


def _read(request: ReadRequest, watch: Watch, make: Callable[[], Any]) -> dict[str, Any]:
    """Return the digests of the first batches, and whether there are no more."""
    clock, batch = Clock(), None
    found: dict[str, Any] = {"leaves": [], "rows": []}
    watch.note_wait(clock(), starts=True)
    iterator = iter(make())
    try:
        for number in count():
            watch.note_wait(clock(), starts=not number)
            batch = next(iterator, _END)
            watch.note_wait(None)
            # Each batch has its own limit, because slow ones may be many.
            watch.begin_rounds(request.batch_limit_s)
            if batch is _END or number == request.batches:
                break
            found["leaves"].append(_describe_leaves(batch))
            found["rows"].append(_digest_rows(batch))
    finally:
        close_with_timeout(getattr(iterator, "close", lambda: None))
    return {**found, "ended": batch is _END}


def _describe_leaves(batch: Any) -> dict[str, tuple[str, str]]:
    described = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(batch):
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "the batch"
        # torch's types have the same names as NumPy's.
        dtype = str(getattr(leaf, "dtype", type(leaf).__name__)).removeprefix("torch.")
        shape = ",".join(map(str, getattr(leaf, "shape", ())))
        described[name] = f"{dtype}[{shape}]", digest(leaf).hex()
    return described


def _digest_rows(batch: Any) -> list[str]:
    try:
        return [row.hex() for row in digest_rows(batch)]
    except MisuseError:
        return [digest(batch).hex()]
