"""Run and time a step: on resident batches, synced, with transfers, and beside a loader."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from inspect import getattr_static
from itertools import cycle, islice
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding

from netpipe.clock import Clock
from netpipe.errors import MisuseError
from netpipe.measuring.loader_puller import Batch, Puller
from netpipe.measuring.training.token_counts import Counted, count_tokens, name_leaves

State = Any
Aux = Any
Step = Callable[[State, Batch], tuple[State, Aux]]
StepFactory = Callable[[], tuple[State, Step]]
Wait = Callable[[Aux], object]
BatchesFactory = Callable[[], Sequence[Batch]]

# With only one batch, a step would find it in the caches every time.
_MIN_RESIDENT = 2
# The warm-up ends after this many successive steps without a compilation.
_QUIET_STEPS = 3
# The time limit applies only from this step on.
_MIN_WARM_UP_STEPS = 4
_MAX_WARM_UP_STEPS = 30
# Donated batches are copied, and the copies must fit beside the model.
_MIN_COPIES, _MAX_COPIED_BYTES = 4, 1 << 30
# Kinds of numpy dtypes that a device cannot hold: objects, text, dates.
_NOT_NUMERIC = "OSUTMm"


def first_array(aux: Aux) -> jax.Array:
    """Return the array named loss in an aux, else its first; raise a MisuseError if it has none."""
    found = [
        (path, leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(aux)
        # Arrays of random keys have no is_ready.
        if isinstance(leaf, jax.Array) and not jnp.issubdtype(leaf.dtype, jax.dtypes.extended)
    ]
    if not found:
        raise MisuseError(
            "step(state, batch) must return (state, aux) with a jax.Array in aux, as the loss; "
            f"found {type(aux).__name__} without one. Or give the step an attribute `wait`, a "
            "function that waits until the step that returned an aux is done"
        )
    named = (leaf for path, leaf in found if path and "loss" in str(path[-1]).lower())
    return next(named, found[0][1])


class Waited:
    """Stands in for the array to wait for if the step has its own `wait`."""

    def __init__(self, wait: Wait, aux: Aux) -> None:
        self._wait, self._aux, self._is_done = wait, aux, False

    def block_until_ready(self) -> None:
        """Wait by calling the step's own `wait`."""
        self._wait(self._aux)
        self._is_done = True

    def is_ready(self) -> bool:
        """Return whether `block_until_ready` has returned; the step itself cannot be asked."""
        return self._is_done

    def is_deleted(self) -> bool:
        """Return False, because there is no array to delete."""
        return False


Done = jax.Array | Waited


def is_ready(array: Any) -> bool:
    """Return whether the device is done with an array, without waiting."""
    return bool(array.is_deleted() or array.is_ready())


def copy_tree(tree: Any) -> Any:
    """Copy the containers and arrays of a tree; keep its other leaves."""
    return jax.tree.map(
        lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray | jax.Array) else leaf, tree
    )


def is_finite(array: Done) -> bool:
    """Return whether an array holds neither NaN nor infinity; True if it cannot be read."""
    if isinstance(array, Waited) or array.is_deleted():
        return True
    is_float = jnp.issubdtype(array.dtype, jnp.inexact)
    return not is_float or bool(np.isfinite(np.asarray(array)).all())


def to_device(batch: Batch) -> Batch:
    """Copy every array of a batch to the device; keep its other leaves."""

    def put(leaf: Any) -> Any:
        array = array_of(leaf)
        return leaf if array is None else jax.device_put(array)

    return jax.tree.map(put, batch)


def array_of(leaf: Any) -> jax.Array | np.ndarray | None:
    """Return the array of a leaf that goes to the device, or None if the leaf stays on the host.

    Anything that NumPy reads as an array of numbers goes to the device, such as a torch tensor on
    the CPU. If an array spans several processes, only this process's part is returned.
    """
    if isinstance(leaf, jax.Array):
        return leaf if leaf.is_fully_addressable else _part_of_process(leaf)
    array = np.asarray(leaf) if hasattr(leaf, "__array__") else None
    if array is None or array.dtype.kind in _NOT_NUMERIC or array.dtype.fields:
        return None
    return array


def _part_of_process(array: jax.Array) -> jax.Array:
    sharding = array.sharding
    if not isinstance(sharding, NamedSharding):
        kind = type(sharding).__name__
        raise MisuseError(f"a batch on several processes must have a NamedSharding; found {kind}")
    mesh = cast(Mesh, sharding.mesh)
    return cast(
        jax.Array, multihost_utils.global_array_to_host_local_array(array, mesh, sharding.spec)
    )


def batch_bytes(batch: Batch) -> int:
    """Return the bytes of a batch's arrays (of any library), or of its objects without arrays."""
    leaves = [leaf for _, part in name_leaves(batch) for leaf in jax.tree.leaves(part)]
    sizes = [size for leaf in leaves if isinstance(size := getattr(leaf, "nbytes", None), int)]
    return sum(sizes) if sizes else sum(map(sys.getsizeof, leaves))


def count_batch(batch: Batch) -> Counted | None:
    """Count the tokens of this host's batch; return None if it has no readable array."""
    try:
        arrays = dict[str, Any]()
        # `name_leaves` keeps the order of a dict; jax would sort its keys.
        for name, part in name_leaves(batch):
            for path, leaf in jax.tree_util.tree_leaves_with_path(part):
                below = jax.tree_util.keystr(path, simple=True, separator=".")
                if (array := array_of(leaf)) is not None and array.ndim:
                    arrays[".".join(filter(None, (name, below)))] = array
        return count_tokens(arrays) if arrays else None
    except Exception:  # noqa: BLE001  # a foreign array may be deleted or out of reach
        return None


class StepRunner:
    """A training state, and the step that is timed on it.

    The step is timed alone on the `synthetic` batches if given, else on the loader's
    `host_batches`. At least two batches are used, in rotation. A step may take longer on some
    contents than on others, so beside synthetic batches it is timed on the loader's too.

    Attributes:
        ready_aux: A copy of the first warm-up step's aux, ready to read.
        kept_state_bytes: Bytes of the old state that stay allocated after a step.
        ready_before_next: Steps without a loop that were done when the next one was dispatched.
        devices: The devices of the latest step: jax's own, or objects with a `platform` and a
            `device_kind`.
    """

    def __init__(
        self,
        factory: StepFactory,
        host_batches: Sequence[Batch],
        clock: Clock,
        synthetic: BatchesFactory | None = None,
    ) -> None:
        self.state, self.step = make_step(factory)
        self.ready_aux: Aux = None
        self.clock = clock
        self.host_batches = host_batches
        self._host = cycle(host_batches)
        resident = host_batches if synthetic is None else synthetic()
        if len(resident) < _MIN_RESIDENT:
            raise MisuseError(
                f"synthetic() must return at least {_MIN_RESIDENT} batches; found {len(resident)}"
            )
        self.wait: Wait | None = self._read_attribute("wait")
        self._resident = cycle(self._all_to_device(resident))
        self._loaded = None if synthetic is None else cycle(self._all_to_device(host_batches))
        self.compilations = compilation_count()
        self.kept_state_bytes = self.ready_before_next = self.asked_before_next = 0
        self.donates_batches, self.runs_in_a_thread = False, True
        self.devices: tuple[Any, ...] = ()

    def advance(self, batch: Batch) -> Done:
        """Dispatch one step and return the array that is ready when the step is done."""
        self.state, aux = self.step(self.state, batch)
        done = self.find_done(aux)
        if not isinstance(done, Waited):
            self.devices = tuple(done.sharding.device_set)
        elif not self.devices:
            self.devices = tuple(self._find_devices(aux))
        return done

    def _find_devices(self, aux: Aux) -> Iterable[Any]:
        """Return the devices of a step with a `wait`: its named device, or those of its arrays."""
        name, arrays = self._read_attribute("device"), _arrays((aux, self.state))
        if name is None and arrays:
            return arrays[0].sharding.device_set
        kind = name if isinstance(name, str) else "unknown"
        platform = kind if kind in ("cpu", "unknown") else "tpu" if "tpu" in kind.lower() else "gpu"
        return [SimpleNamespace(platform=platform, device_kind=kind)]

    def _read_attribute(self, name: str) -> Any:
        # Reading an attribute that a step lacks may raise something other than AttributeError.
        has_it = getattr_static(self.step, name, None) is not None
        return getattr(self.step, name, None) if has_it else None

    def find_done(self, aux: Aux) -> Done:
        """Return the array that is ready when the step that returned `aux` is done."""
        return first_array(aux) if self.wait is None else Waited(self.wait, aux)

    def lower(self) -> Any:
        """Return the step's `jax.stages.Lowered`; raise whatever tracing the step raises."""
        lower: Callable[..., Any] = getattr(self.step, "lower", None) or jax.jit(self.step).lower
        return lower(self.state, to_device(self.host_batches[0]))

    def _to_device(self, batch: Batch) -> Batch:
        # A step with its own `wait` may not use JAX, so it moves its batch itself.
        return to_device(batch) if self.wait is None else batch

    def _all_to_device(self, batches: Sequence[Batch]) -> list[Batch]:
        return [jax.block_until_ready(self._to_device(batch)) for batch in batches]

    def renew_batches(self, batches: Sequence[Batch]) -> None:
        """Time S3 and S2 on these batches of the loader from now on, if they are like the first.

        Each round then sees other contents, as real steps do. Without synthetic batches, S0 is
        timed on the first batches, and S2 remains so too.
        """
        if self._loaded is None or len(batches) < _MIN_RESIDENT:
            return
        if {_form(batch) for batch in batches} == {_form(self.host_batches[0])}:
            self._host, self._loaded = cycle(batches), cycle(self._all_to_device(batches))

    def warm_up(self, limit_s: float) -> None:
        """Run steps on resident and host batches until none compiles or `limit_s` is over."""
        self._detect_donation()
        self._try_in_a_thread()
        started, quiet = self.clock(), 0
        for steps in range(1, _MAX_WARM_UP_STEPS + 1):
            before = self.compilations()
            for batch in (*self._take(self._resident, 1), *self._take(self._host, 1)):
                jax.block_until_ready(self.advance(batch))
            quiet = quiet + 1 if self.compilations() == before else 0
            is_late = steps >= _MIN_WARM_UP_STEPS and self.clock() - started > limit_s
            if quiet == _QUIET_STEPS or (is_late and not quiet):
                return

    def _detect_donation(self) -> None:
        """Record whether the step donates its state and its batch."""
        batch, before = copy_tree(next(self._resident)), _arrays(self.state)
        self.state, aux = jax.block_until_ready(self.step(self.state, batch))
        # A copy, because arrays that the aux shares with the state are donated with it.
        self.ready_aux = jax.block_until_ready(copy_tree(aux))
        after = {id(leaf) for leaf in _arrays(self.state)}
        kept = [leaf for leaf in before if id(leaf) not in after and not leaf.is_deleted()]
        self.kept_state_bytes = sum(leaf.nbytes for leaf in kept)
        self.donates_batches = any(leaf.is_deleted() for leaf in _arrays(batch))

    def _try_in_a_thread(self) -> None:
        # A jax context is bound to its thread, so some steps fail in another one.
        with ThreadPoolExecutor(1, "netpipe-first-step-aside") as thread:
            try:
                thread.submit(self.measure_resident_s, 1, probes=False).result()
            except Exception:  # noqa: BLE001  # any error of the step
                self.runs_in_a_thread = False

    def _take(self, batches: Iterator[Batch], count: int) -> list[Batch]:
        """Take `count` batches; if the step donates them, take copies, and fewer large ones."""
        if not self.donates_batches:
            return list(islice(batches, count))
        first = next(batches)
        most = max(_MIN_COPIES, _MAX_COPIED_BYTES // max(1, batch_bytes(first)))
        copies: list[Batch] = copy_tree([first, *islice(batches, min(count, most) - 1)])
        return list(jax.block_until_ready(copies))

    def measure_resident_s(self, steps: int, *, probes: bool = True) -> float:
        """Return the seconds per step on resident batches, waiting only once, at the end.

        With `probes`, also count the steps that are done when the next one is dispatched.
        """
        return self._time_flat_out(self._take(self._resident, steps), probes=probes)

    def _time_flat_out(self, batches: Sequence[Batch], *, probes: bool) -> float:
        started = self.clock()
        last = self.advance(batches[0])
        for batch in batches[1:]:
            if probes:
                self.asked_before_next += 1
                self.ready_before_next += is_ready(last)
            last = self.advance(batch)
        jax.block_until_ready(last)
        return (self.clock() - started) / len(batches)

    def measure_loaded_s(self, steps: int) -> float | None:
        """Return the seconds per step on the loader's batches, which are on the device already.

        Return None without synthetic batches, since the step alone is timed on these anyway.
        """
        if self._loaded is None:
            return None
        return self._time_flat_out(self._take(self._loaded, steps), probes=False)

    def measure_synced_s(self, steps: int) -> float:
        """Return the seconds per step on resident batches, waiting after every step."""
        batches = self._take(self._resident, steps)
        started = self.clock()
        for batch in batches:
            jax.block_until_ready(self.advance(batch))
        return (self.clock() - started) / len(batches)

    def measure_transfer_s(self, steps: int) -> float:
        """Return the seconds per step, with a transfer of a cached host batch before each step.

        The clock starts when the first step, whose transfer nothing hides, is done and the next one
        is running, so the device is busy throughout. With a step that has its own `wait`, both are
        done, because it cannot be asked.
        """
        batches = self._take(self._host, steps + 2)
        first, last = (self.advance(self._to_device(batch)) for batch in batches[:2])
        jax.block_until_ready(first)
        if isinstance(last, Waited):
            last.block_until_ready()
        # The second step counts if it is still running; otherwise, one more step is timed.
        timed = batches[2:] if is_ready(last) else batches[2:-1]
        started = self.clock()
        for batch in timed:
            last = self.advance(self._to_device(batch))
        jax.block_until_ready(last)
        return (self.clock() - started) / (len(batches) - 2)

    def measure_shadow_s(self, steps: int, puller: Puller, step_s: float) -> float:
        """Return the seconds per step on resident batches while this thread pulls the loader.

        The main thread pulls, as in training, because some loaders need that. It takes at most one
        batch every `step_s` seconds, the time of a step alone.
        """
        with ThreadPoolExecutor(1, "netpipe-shadowed-step") as thread:
            stepping = thread.submit(self.measure_resident_s, steps, probes=False)
            due = self.clock() + step_s
            puller.pull()
            while wait([stepping], timeout=max(0.0, due - self.clock())).not_done:
                due = max(due, self.clock()) + step_s
                puller.pull()
            return stepping.result()


def _form(batch: Batch) -> tuple[Any, ...]:
    """Return the structure, the shapes and the dtypes of a batch, and whether it was deleted."""
    leaves, structure = jax.tree.flatten(batch)
    arrays = [(getattr(leaf, "shape", None), getattr(leaf, "dtype", None)) for leaf in leaves]
    deleted = any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in leaves)
    return (structure, *arrays, deleted)


def _arrays(tree: Any) -> list[jax.Array]:
    return [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array)]


def make_step(factory: StepFactory) -> tuple[State, Step]:
    """Call a step factory; raise a MisuseError unless it returns `(state, step)`."""
    made = factory()
    if not (isinstance(made, tuple) and len(made) == 2 and callable(made[1])):
        raise MisuseError(
            f"the step factory {getattr(factory, '__name__', '')} must return (state, step); found "
            f"{type(made).__name__}. Name a function that returns the first state and the function "
            "that is called as step(state, batch)"
        )
    return made


@cache
def compilation_count() -> Callable[[], int]:
    """Return a function that counts this process's compilations from now on."""
    seen = [0]

    def count(event: str, duration_secs: float, **kwargs: str | int) -> None:  # noqa: ARG001
        seen[0] += event == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(count)
    return lambda: seen[0]
