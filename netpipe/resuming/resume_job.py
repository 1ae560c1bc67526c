"""The job of a session that runs a loader, from the start or from a restored state."""

import pickle
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from netpipe.clock import Clock
from netpipe.errors import MisuseError, describe_error
from netpipe.grain_access.batch_digests import digest
from netpipe.grain_access.loader_variants import takes_parameters
from netpipe.jobs.orders import open_channel
from netpipe.jobs.processes import ProcessTree
from netpipe.jobs.targets import Factories
from netpipe.jobs.watchdog import Watchdog
from netpipe.measuring.loader_puller import close_with_timeout, wait_until_quiet
from netpipe.resuming.checking import ResumeRequest

_METHODS: Final = (("get_state", "set_state"), ("state_dict", "load_state_dict"))
_QUIET_LIMIT_S: Final = 1.0
# A loader that forgets its shard in a restore continues exactly on a single host.
_SECOND_HOST: Final = {"shard_index": 1, "shard_count": 2}


def run_loader(request: ResumeRequest, factories: Factories, closing: ExitStack) -> dict[str, Any]:
    """Run a loader, save states and digest batches; raise a MisuseError if it has no state."""
    with open_channel(request) as channel:
        request = replace(request, **channel.recv())
    factory: Callable[..., Any] = factories.loader
    is_sharded = takes_parameters(factory, *_SECOND_HOST)
    if is_sharded:
        factory = partial(factory, **_SECOND_HOST)
    takes_workers = takes_parameters(factory, "workers")
    run: dict[str, Any] = {"takes_workers": takes_workers, "digests": [], "saves": {}}
    run["is_sharded"] = is_sharded
    clock, states, first = Clock(), Path(request.states), request.restored or 0
    kept = list[tuple[int, Any, bytes, float]]()

    def let_buffers_fill() -> None:
        if request.pause_s is not None:
            clock.sleep(request.pause_s)
            wait_until_quiet(ProcessTree().cpu_s, clock, _QUIET_LIMIT_S)

    with Watchdog(request, extra_s=request.start_limit_s) as watch:
        started_s = clock()
        watch.note_wait(started_s, starts=True)
        loader = factory(workers=request.workers) if takes_workers else factory()
        holder, save, restore = _find_state(loader)
        if request.restored is not None:
            asked_s = clock()
            let_buffers_fill()
            started_s += clock() - asked_s
            watch.note_wait(clock(), starts=True)
            restore(pickle.loads((states / str(first)).read_bytes()))
        iterator = iter(holder)
        closing.callback(close_with_timeout, getattr(iterator, "close", lambda: None))
        for offset in range(first, request.batches):
            if offset in request.saved:
                let_buffers_fill()
                asked_s = clock()
                state, taken_s = save(), clock() - asked_s
                kept.append((offset, state, _pickle(state), taken_s))
                (states / str(offset)).write_bytes(kept[-1][2])
            watch.note_wait(clock(), starts=offset == first)
            batch = next(iterator, run)
            watch.note_wait(None)
            run["ended"] = batch is run
            if run["ended"]:
                break
            run.setdefault("first_batch_s", clock() - started_s)
            run["digests"].append(digest(batch).hex())
        given_s = clock() - started_s - run.get("first_batch_s", 0.0)
        run["s_per_batch"] = given_s / max(1, len(run["digests"]) - 1)
        for at, state, pickled, taken_s in kept:
            is_equal = _pickle(state) == pickled or digest(state) == digest(pickle.loads(pickled))
            run["saves"][at] = len(pickled), taken_s, not is_equal
    return {"resume": run}


def _pickle(state: object) -> bytes:
    try:
        return pickle.dumps(state)
    except Exception as error:
        raise MisuseError(
            f"a state must be picklable; found {type(state).__name__}: {describe_error(error)}. "
            "Make it of numbers, strings, arrays, lists and dicts"
        ) from error


def _find_state(loader: Any) -> tuple[Any, Any, Any]:
    """Return the loader or its iterator, whichever has a state, and its two methods for states."""
    # torchdata's loader must be restored before its iterator is made.
    holder = loader if any(hasattr(loader, name) for _, name in _METHODS) else iter(loader)
    for save, restore in _METHODS:
        if hasattr(holder, save) and hasattr(holder, restore):
            return holder, getattr(holder, save), getattr(holder, restore)
    raise MisuseError(
        "the loader or its iterator must have get_state and set_state, or state_dict and "
        f"load_state_dict; found {type(loader).__name__} without them. Return Grain's dataset, "
        "torchdata's StatefulDataLoader, or an iterator of your own with these methods"
    )
