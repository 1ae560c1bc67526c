"""Permission for Grain to start worker processes."""

import sys
from collections.abc import Callable
from typing import Any

from absl import flags


def let_grain_start_workers() -> None:
    """Mark absl's flags as parsed; otherwise Grain starts no worker outside an absl app."""
    import netpipe.grain_access.worker_end  # noqa: F401  # not for loaders that need no Grain

    flags.FLAGS.mark_as_parsed()


def make_unpermitted(make: Callable[[], Any]) -> tuple[Any, bool]:
    """Make a loader, return whether Grain could start no workers for it, and then permit it."""
    from grain._src.core import profiler  # not for loaders that need no Grain

    made, fails = None, False
    try:
        made = make()
        profiler.is_worker_profiling_enabled()
    except flags.UnparsedFlagAccessError as error:
        # A program with flags of its own, or with absl.app, parses them.
        fails = "--grain_" in str(error) and "absl.app" not in sys.modules
    let_grain_start_workers()
    return (make() if made is None else made), fails
