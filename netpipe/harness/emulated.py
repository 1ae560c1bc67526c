"""An accelerator that is only a clock: a step of a set time, asynchronous, using no CPU.

A step is a jitted computation whose custom call sleeps until a deadline that the host computed at
dispatch. So its results are real `jax.Array`s: everything that waits for a real step waits for
this one, and the runtime bounds how many are in flight as it does for a real device.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from netpipe.harness.errors import MisuseError
from netpipe.harness.sleep_call import register_sleep_target

_SPEC = re.compile(r"emulated:(?P<value>\d+(?:\.\d+)?)(?P<unit>us|ms|s)")
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_NS = 1_000_000_000


@dataclass(frozen=True)
class Emulated:
    """An accelerator that takes `step_s` seconds for any step.

    Attributes:
        name: How it was asked for, `emulated:36ms`.
        step_s: Seconds a step takes.
    """

    name: str
    step_s: float

    @property
    def key(self) -> str:
        """What it is called where a real device has its key."""
        return self.name.replace(":", "-")


def parse_accelerator(text: str) -> Emulated | None:
    """Read an accelerator's name; None stands for `auto`, the device that jax finds.

    Raises:
        MisuseError: The name is neither `auto` nor an emulated step time.
    """
    if text == "auto":
        return None
    match = _SPEC.fullmatch(text)
    if match is None or float(match["value"]) <= 0:
        raise MisuseError(
            f"accelerator must be auto or emulated:<time>, as emulated:36ms; found {text!r}"
        )
    return Emulated(text, float(match["value"]) * _UNITS[match["unit"]])


def parse_accelerators(text: str) -> tuple[str, ...]:
    """Split a list of accelerators' names, `auto, emulated:36ms`.

    Raises:
        MisuseError: One of them cannot be read.
    """
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        parse_accelerator(name)
    return names


class EmulatedStep:
    """A stand-in for a training step: `step(state, batch) -> (state, aux)`.

    The device is busy with one step at a time, each for `step_s` seconds from its dispatch or
    from the end of the step before it, whichever is later.

    Args:
        step_s: Seconds a step takes.
        real: Makes the `(state, step)` stood in for, whose aux has the same shapes; never run.
            Left out, aux is `{"loss": float32 ()}`.
    """

    def __init__(self, step_s: float, real: Callable[[], tuple[Any, Any]] | None = None) -> None:
        self._step_ns = round(step_s * _NS)
        self._real = real
        self._free_ns = 0
        self._compute: Callable[[Any, Any], tuple[Any, Any]] | None = None

    def initial_state(self) -> Any:
        """Return the state to hand to the first step: a token that orders the steps."""
        import jax.numpy as jnp

        return {"token": jnp.zeros((8, 8), jnp.float32)}

    def __call__(self, state: Any, batch: Any) -> tuple[Any, Any]:
        """Dispatch one step and return at once."""
        if self._compute is None:
            self._compute = _sleeping_computation(self._aux_shapes(batch))
        self._free_ns = max(self._free_ns, time.monotonic_ns()) + self._step_ns
        token, aux = self._compute(_halves(self._free_ns), state["token"])
        return {"token": token}, aux

    def _aux_shapes(self, batch: Any) -> Any:
        import jax
        import jax.numpy as jnp

        if self._real is None:
            return {"loss": jax.ShapeDtypeStruct((), jnp.float32)}
        from netpipe.harness.stepping import made_step

        state, step = made_step(self._real)
        return jax.eval_shape(step, state, batch)[1]


def _sleeping_computation(aux_shapes: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    import jax
    import jax.numpy as jnp

    sleep_until = jax.ffi.ffi_call(
        register_sleep_target(), jax.ShapeDtypeStruct((8, 8), jnp.float32), has_side_effect=True
    )

    @jax.jit
    def compute(deadline: Any, token: Any) -> tuple[Any, Any]:
        # Real work beside the call: without it the runtime runs the computation inline and the
        # dispatch waits for the step.
        token = jnp.tanh(token @ token)
        slept = sleep_until(deadline, token)
        # The call writes nothing: only that its result must exist before `done` is used.
        done = jax.lax.optimization_barrier((token, slept))[0]
        aux = jax.tree.map(lambda one: jnp.full(one.shape, done[0, 0], one.dtype), aux_shapes)
        return done, aux

    return compute


def _halves(nanoseconds: int) -> Any:
    """Split a 64-bit time into two uint32, which jax keeps whole by default."""
    import numpy as np

    return np.array([nanoseconds], np.uint64).view(np.uint32)
