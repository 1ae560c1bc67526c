"""An accelerator that is only a clock: a step of a set time, asynchronous, using no CPU.

A step is a jitted computation whose custom call sleeps until a deadline that the host computed at
dispatch. So its results are real `jax.Array`s: everything that waits for a real step waits for
this one, and the runtime bounds how many are in flight as it does for a real device.
"""

import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np

from netpipe.errors import MisuseError
from netpipe.measuring.sleep_call import register_sleep_target
from netpipe.measuring.stand_ins import EmulatedState, OnlyLoss, refuse_attribute
from netpipe.measuring.step_runner import StepFactory, array_of, make_step
from netpipe.results.step_times import DeviceStep

_NS = 1_000_000_000
_TOKEN = jax.ShapeDtypeStruct((8, 8), jnp.float32)
_DEADLINE = jax.ShapeDtypeStruct((2,), jnp.uint32)

_Arrays = Sequence[Any]
"""For each leaf of a batch the array that goes to the device, None for one that stays."""

_Computation = Callable[[Any, Any], tuple[Any, Any]]


class Engines:
    """When a device's copy engine and its compute engine are free, on a clock in nanoseconds.

    Each does one thing at a time, in order. Deadlines follow from deadlines and not from when a
    sleeper woke up, so that short steps take their time exactly on average.

    Args:
        step_s: Seconds a step takes.
        copy_bytes_per_s: Bandwidth from the host to the device.
    """

    def __init__(self, step_s: float, copy_bytes_per_s: float = inf) -> None:
        self.free_ns = 0
        self._copies_done_ns = 0
        self._step_ns = round(step_s * _NS)
        self._copy_ns_per_byte = _NS / copy_bytes_per_s

    def dispatch(self, now_ns: int, copied_bytes: int) -> int:
        """Return when a step is done whose batch is copied from now on and which runs after it."""
        copy_ns = round(copied_bytes * self._copy_ns_per_byte)
        self._copies_done_ns = max(self._copies_done_ns, now_ns) + copy_ns
        self.free_ns = max(self.free_ns, self._copies_done_ns) + self._step_ns
        return self.free_ns

    def device_step(self, done_ns: int) -> DeviceStep:
        """Return when the step is computed that is done at this time."""
        return DeviceStep((done_ns - self._step_ns) / _NS, done_ns / _NS)


class EmulatedStep:
    """A stand-in for a training step: `step(state, batch) -> (state, aux)`.

    A batch is copied when the step first sees it, so a resident one only once, and whatever has
    been computed on the device from it once more. The step begins when its copy and the step
    before it are done. It compiles anew when the shapes or the dtypes of the batch are new.

    Args:
        step_s: Seconds a step takes.
        real: Makes the `(state, step)` stood in for, whose aux has the same shapes; never run.
            Left out, aux is `{"loss": float32 ()}`.
        copy_bytes_per_s: Bandwidth from the host to the device; infinite: copies cost nothing.
    """

    def __init__(
        self, step_s: float, real: StepFactory | None = None, copy_bytes_per_s: float = inf
    ) -> None:
        self._engines = Engines(step_s, copy_bytes_per_s)
        self._real = real
        self._on_device: WeakValueDictionary[int, jax.Array] = WeakValueDictionary()
        self._compiled: dict[object, _Computation] = {}

    def __getattr__(self, name: str) -> NoReturn:
        refuse_attribute("step", name, "An emulated accelerator's step can only be called")

    def initial_state(self) -> EmulatedState:
        """Return the state to hand to the first step."""
        return EmulatedState(jnp.zeros(_TOKEN.shape, _TOKEN.dtype))

    def __call__(self, state: EmulatedState, batch: Any) -> tuple[EmulatedState, Any]:
        """Dispatch one step and return at once.

        Raises:
            MisuseError: The state is none of an emulated step, or the real step cannot be traced.
        """
        if not isinstance(state, EmulatedState):
            raise MisuseError(
                "an emulated accelerator's step must be given the state that it returned; found "
                f"{type(state).__name__}"
            )
        leaves, structure = jax.tree.flatten(batch)
        arrays = [array_of(leaf) for leaf in leaves]
        compute = self._computation(leaves, arrays, structure)
        # Only now: a real device does not begin before its program is compiled either.
        done_ns = self._engines.dispatch(time.monotonic_ns(), self._copied_bytes(arrays))
        token, aux = compute(_halves(done_ns), *jax.tree.leaves(state))
        return EmulatedState(token, self._engines.device_step(done_ns)), aux

    def _copied_bytes(self, arrays: _Arrays) -> int:
        """Return the bytes that the device has not seen, and note what it has from now on."""
        copied = 0
        for array in arrays:
            if array is None:
                continue
            if self._on_device.get(id(array)) is not array:
                # As the device holds it: by default jax makes 32 bits of 64.
                copied += array.size * jax.dtypes.canonicalize_dtype(array.dtype).itemsize
            if isinstance(array, jax.Array):
                self._on_device[id(array)] = array
        return copied

    def _computation(self, leaves: Sequence[Any], arrays: _Arrays, structure: Any) -> _Computation:
        # What jax.jit tells batches apart by.
        kind = (structure, tuple(None if one is None else jax.typeof(one) for one in arrays))
        if kind not in self._compiled:
            self._compiled[kind] = _compiled(_aux_shapes(self._real, leaves, arrays, structure))
        return self._compiled[kind]


def _aux_shapes(
    real: StepFactory | None, leaves: Sequence[Any], arrays: _Arrays, structure: Any
) -> Any:
    """Trace the real step and return its aux as `jax.ShapeDtypeStruct`s.

    The factory is traced too, for its state may not fit here; one that cannot be traced is run.

    Raises:
        MisuseError: The step reads values, which a trace does not have.
    """
    if real is None:
        return OnlyLoss(loss=jax.ShapeDtypeStruct((), jnp.float32))

    def shapes(factory: StepFactory) -> Any:
        def aux(traced: Sequence[Any]) -> Any:
            batch = [leaf if one is None else one for leaf, one in zip(leaves, traced, strict=True)]
            state, step = make_step(factory)
            return step(state, jax.tree.unflatten(structure, batch))[1]

        return jax.eval_shape(aux, list(arrays))

    try:
        return shapes(real)
    except Exception:  # noqa: BLE001  # whatever it is, it shows again when the factory is run
        made = make_step(real)
    try:
        return shapes(lambda: made)
    except jax.errors.JAXTypeError as error:
        raise MisuseError(
            "an emulated accelerator traces the step for the shapes of its aux, and this one "
            f"cannot be traced: {str(error).splitlines()[0]} Leave the step out and give the FLOPs "
            "of a step or its time"
        ) from error


def _compiled(aux_shapes: Any) -> _Computation:
    """Compile `(deadline, token) -> (token, aux)`, done at the deadline."""
    sleep_until = jax.ffi.ffi_call(register_sleep_target(), _TOKEN, has_side_effect=True)

    def compute(deadline: Any, token: Any) -> tuple[Any, Any]:
        # Real work beside the call: without it the runtime runs the computation inline and the
        # dispatch waits for the step.
        token = jnp.tanh(token @ token)
        slept = sleep_until(deadline, token)
        # The call writes nothing: only that its result must exist before `done` is used.
        done = jax.lax.optimization_barrier((token, slept))[0]
        aux = jax.tree.map(lambda one: jnp.full(one.shape, done[0, 0], one.dtype), aux_shapes)
        return done, aux

    return jax.jit(compute).lower(_DEADLINE, _TOKEN).compile()


def _halves(nanoseconds: int) -> Any:
    """Split a 64-bit time into two uint32, which jax keeps whole by default."""
    return np.array([nanoseconds], np.uint64).view(np.uint32)
