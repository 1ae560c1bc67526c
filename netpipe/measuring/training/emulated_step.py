"""An accelerator that is only a clock: asynchronous steps of a set time that use no CPU.

A step is a jitted computation whose custom call sleeps until a deadline that the host computed at
dispatch. Its results are real `jax.Array`s, so any code that waits for a real step also waits for
an emulated step, and the runtime limits the steps in flight as on a real device.
"""

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np

from netpipe.errors import MisuseError, first_line
from netpipe.measuring.training.step_runner import StepFactory, array_of, make_step
from netpipe.results.step_times import DeviceStep

_NS = 1_000_000_000
_TOKEN = jax.ShapeDtypeStruct((8, 8), jnp.float32)
_DEADLINE = jax.ShapeDtypeStruct((2,), jnp.uint32)


class AbsentError(MisuseError, AttributeError):
    """A stand-in lacks an attribute; `hasattr` and `getattr` treat it as absent."""


class _StandIn:
    """A part of an emulated training; reading a missing attribute is an error."""

    _name: str
    _way_out: str

    def __getattr__(self, name: str) -> NoReturn:
        # Python's protocols probe for names that begin with an underscore.
        if name.startswith("_"):
            raise AttributeError(name)
        raise AbsentError(f"{self._name}.{name} was read. {self._way_out}")


@jax.tree_util.register_dataclass
@dataclass(eq=False, repr=False)
class EmulatedState(_StandIn):
    """A state that only keeps the steps in order.

    Its only leaf, float32 (8, 8), is ready when the step that returned it is done.
    """

    _token: Any

    _name = "state"
    _way_out = (
        "An emulated accelerator keeps no state: do not read it in measured code, or "
        "measure on a real device (--accelerator auto)"
    )

    def __getitem__(self, key: object) -> NoReturn:
        raise MisuseError(f"state[{key!r}] was read. {self._way_out}")

    def __iter__(self) -> NoReturn:
        raise MisuseError(f"the state was iterated over. {self._way_out}")


class OnlyLoss(dict[str, Any], _StandIn):
    """The aux if there is no real step: a dict whose only key is `loss`."""

    _name = "aux"
    _way_out = (
        "Without a step to trace, an emulated accelerator's aux is a dict with only 'loss': "
        "give --step (or the fixture netpipe_step)"
    )

    def __missing__(self, key: object) -> NoReturn:
        raise MisuseError(f"aux[{key!r}] was read. {self._way_out}")

    def __float__(self) -> NoReturn:
        raise MisuseError(f"float(aux) was called. {self._way_out}")


jax.tree_util.register_pytree_node(
    OnlyLoss, lambda aux: ((aux["loss"],), None), lambda _, leaves: OnlyLoss(loss=leaves[0])
)


class Engines:
    """The copy engine and the compute engine of a device, on a clock in nanoseconds.

    Each engine does one thing at a time, in order. A deadline follows from the previous deadline,
    not from the moment of waking up, so short steps take exactly their time on average.
    """

    def __init__(self, step_s: float, copy_bytes_per_s: float = inf) -> None:
        self.free_ns = 0
        self._copies_done_ns = 0
        self._step_ns = round(step_s * _NS)
        self._copy_ns_per_byte = _NS / copy_bytes_per_s

    def dispatch(self, now_ns: int, copied_bytes: int) -> int:
        """Return the end time of a step dispatched now, which waits for the copy of its batch."""
        copy_ns = round(copied_bytes * self._copy_ns_per_byte)
        self._copies_done_ns = max(self._copies_done_ns, now_ns) + copy_ns
        self.free_ns = max(self.free_ns, self._copies_done_ns) + self._step_ns
        return self.free_ns

    def device_step(self, done_ns: int) -> DeviceStep:
        """Return the start and end times of the step that ends at `done_ns`."""
        return DeviceStep((done_ns - self._step_ns) / _NS, done_ns / _NS)


class EmulatedStep(_StandIn):
    """A stand-in for a training step: `step(state, batch) -> (state, aux)`.

    An array is copied when the step first sees it. The step begins when this copy and the previous
    step are done. It is recompiled for new shapes or dtypes of the batch.

    The `real` step is traced for the shapes of its aux and never run; without it, the aux is
    `{"loss": float32 ()}`.

    Attributes:
        device_step: Start and end of the last dispatched step on the device.
    """

    device_step: DeviceStep

    _name = "step"
    _way_out = "An emulated accelerator's step can only be called"

    def __init__(
        self, step_s: float, real: StepFactory | None = None, copy_bytes_per_s: float = inf
    ) -> None:
        self._engines = Engines(step_s, copy_bytes_per_s)
        self._real = real
        self._on_device: WeakValueDictionary[int, jax.Array] = WeakValueDictionary()
        self._compiled: dict[object, Callable[[Any, Any], tuple[Any, Any]]] = {}

    def initial_state(self) -> EmulatedState:
        """Return the state for the first step."""
        return EmulatedState(jnp.zeros(_TOKEN.shape, _TOKEN.dtype))

    def __call__(self, state: EmulatedState, batch: Any) -> tuple[EmulatedState, Any]:
        """Dispatch one step and return at once.

        Raises:
            MisuseError: The state is not an emulated step's, or the real step cannot be traced.
        """
        if not isinstance(state, EmulatedState):
            raise MisuseError(
                "an emulated accelerator's step must be given the state that it returned; found "
                f"{type(state).__name__}"
            )
        leaves, structure = jax.tree.flatten(batch)
        arrays = [array_of(leaf) for leaf in leaves]
        # The cache of jax.jit uses the same key.
        kind = (structure, tuple(array if array is None else jax.typeof(array) for array in arrays))
        if kind not in self._compiled:
            self._compiled[kind] = _compile(_trace_aux(self._real, leaves, arrays, structure))
        # Dispatch after compiling, because a real device cannot start before that.
        done_ns = self._engines.dispatch(time.monotonic_ns(), self._copied_bytes(arrays))
        # Pass the deadline as two uint32, because jax converts 64 bits to 32 by default.
        deadline = np.array([done_ns], np.uint64).view(np.uint32)
        self.device_step = self._engines.device_step(done_ns)
        return self._compiled[kind](deadline, state)

    def _copied_bytes(self, arrays: Sequence[Any]) -> int:
        """Return the number of bytes to copy to the device, and record the arrays as copied."""
        copied = 0
        for array in filter(lambda array: array is not None, arrays):
            if self._on_device.get(id(array)) is not array:
                copied += array.size * jax.dtypes.canonicalize_dtype(array.dtype).itemsize
            if isinstance(array, jax.Array):
                self._on_device[id(array)] = array
        return copied


def _trace_aux(
    real: StepFactory | None, leaves: Sequence[Any], arrays: Sequence[Any], structure: Any
) -> Any:
    """Trace the real step and return its aux as `jax.ShapeDtypeStruct`s.

    The factory is traced, too, because its state may not fit into this host's memory; a factory
    that cannot be traced is run. `arrays` has None for each leaf that stays on the host.
    """
    if real is None:
        return OnlyLoss(loss=jax.ShapeDtypeStruct((), jnp.float32))

    def shapes(factory: StepFactory) -> Any:
        def aux(traced: Sequence[Any]) -> Any:
            pairs = zip(leaves, traced, strict=True)
            batch = [leaf if array is None else array for leaf, array in pairs]
            state, step = make_step(factory)
            return step(state, jax.tree.unflatten(structure, batch))[1]

        return jax.eval_shape(aux, list(arrays))

    try:
        return shapes(real)
    except Exception:  # noqa: BLE001  # running the factory raises it again
        made = make_step(real)
    try:
        return shapes(lambda: made)
    except jax.errors.JAXTypeError as error:
        raise MisuseError(
            "an emulated accelerator traces the step for the shapes of its aux, and this one "
            f"cannot be traced: {first_line(error)} Omit the step, and give the FLOPs "
            "of a step or its time"
        ) from error


def _compile(aux_shapes: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return a compiled `(deadline, state) -> (state, aux)` that ends at the deadline."""
    sleep_until = jax.ffi.ffi_call(_register_sleep_target(), _TOKEN, has_side_effect=True)

    def compute(deadline: Any, state: EmulatedState) -> tuple[EmulatedState, Any]:
        (token,) = jax.tree.leaves(state)
        # Without real work beside the call, the runtime would run the computation inline, and
        # dispatching would wait for the step.
        token = jnp.tanh(token @ token)
        slept = sleep_until(deadline, token)
        # The call writes nothing; the barrier only makes `done` depend on the call.
        done = jax.lax.optimization_barrier((token, slept))[0]
        aux = jax.tree.map(lambda leaf: jnp.full(leaf.shape, done[0, 0], leaf.dtype), aux_shapes)
        return EmulatedState(done), aux

    return jax.jit(compute).lower(_DEADLINE, EmulatedState(_TOKEN)).compile()


@cache
def _register_sleep_target() -> str:
    """Register a custom call of XLA's CPU runtime that sleeps until a deadline; return its name.

    Its operands are the deadline on `CLOCK_MONOTONIC` in nanoseconds, uint32 (2,) in memory order,
    and a value that must be computed before the sleep. Its result is never written.
    """
    handler = jax.ffi.pycapsule(ctypes.cast(_HANDLER, ctypes.c_void_p))
    jax.ffi.register_ffi_target("netpipe_sleep_until", handler, platform="cpu")
    return "netpipe_sleep_until"


def _structure(**fields: Any) -> type[ctypes.Structure]:
    return type("_Structure", (ctypes.Structure,), {"_fields_": list(fields.items())})


# XLA's FFI structures (xla/ffi/api/c_api.h, version 0.3), each up to the last field used here.
_SIZE, _INT, _POINTER = ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p
_EXTENSION = _structure(struct_size=_SIZE, type=_INT, next=_POINTER)
_VERSION = _structure(struct_size=_SIZE, extension_start=_POINTER, major=_INT, minor=_INT)
_METADATA = _structure(struct_size=_SIZE, api_version=_VERSION)
_METADATA_EXTENSION = _structure(base=_EXTENSION, metadata=ctypes.POINTER(_METADATA))
_BUFFER = _structure(struct_size=_SIZE, extension_start=_POINTER, dtype=_INT, data=_POINTER)
_ARGUMENTS = _structure(
    struct_size=_SIZE,
    extension_start=_POINTER,
    size=ctypes.c_int64,
    types=_POINTER,
    values=ctypes.POINTER(ctypes.POINTER(_BUFFER)),
)
_CALL_FRAME = _structure(
    struct_size=_SIZE,
    extension_start=ctypes.POINTER(_EXTENSION),
    api=_POINTER,
    context=_POINTER,
    stage=_INT,
    arguments=_ARGUMENTS,
)

_METADATA_TYPE = 1
_EXECUTE_STAGE = 3
# The version of a handler that uses only these fields.
_API_VERSION = (0, 1)


def _sleep_until(frame: Any) -> None:
    """Answer XLA's request for metadata, or sleep until the deadline in the first argument."""
    call = frame.contents
    if call.extension_start and call.extension_start.contents.type == _METADATA_TYPE:
        extension = ctypes.cast(call.extension_start, ctypes.POINTER(_METADATA_EXTENSION))
        version = extension.contents.metadata.contents.api_version
        version.major, version.minor = _API_VERSION
        return
    if call.stage != _EXECUTE_STAGE:
        return
    deadline = ctypes.c_uint64.from_address(call.arguments.values[0].contents.data).value
    # time.sleep uses the same clock, and resumes after a signal.
    time.sleep(max(0.0, (deadline - time.monotonic_ns()) / _NS))


_HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_CALL_FRAME))(_sleep_until)
