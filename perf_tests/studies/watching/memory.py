"""Memory of a watcher over many steps, on a simulated clock: `... watching.memory STEPS LOG`."""

import json
import sys
from itertools import repeat
from typing import Final

import jax.numpy as jnp
import psutil

from netpipe.watching.watcher import Watcher
from tests.fakes import FakeClock

_STEP_S: Final = 0.02
_PARTS: Final = 10


def main(steps: int, log: str) -> list[int]:
    """Return the memory of this process alone, in bytes, after each tenth of the steps."""
    clock, aux, found = FakeClock(), {"loss": jnp.zeros(())}, []
    watched = Watcher(repeat({"tokens": jnp.zeros((4, 256))}), log, clock=clock)
    for _ in range(_PARTS):
        for _ in range(steps // _PARTS):
            next(watched)
            clock.sleep(_STEP_S)
            watched.on_step_end(aux)
        found.append(psutil.Process().memory_full_info().uss)
    watched.stop()
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"held_bytes": main(int(sys.argv[1]), sys.argv[2])}))
