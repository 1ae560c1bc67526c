"""Running a step: on resident batches, synced, with transfers, beside a loader."""

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import cycle, islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from netpipe.clock import Clock
from netpipe.errors import MisuseError
from netpipe.measuring.loader_puller import Batch, Puller

State = Any
Aux = Any
Step = Callable[[State, Batch], tuple[State, Aux]]
StepFactory = Callable[[], tuple[State, Step]]
BatchesFactory = Callable[[], Sequence[Batch]]

_LOSS = "loss"
_LEAST_RESIDENT = 2  # a step that sees one batch over and over finds it in its caches
_QUIET_STEPS = 3  # steps without a compilation after which warm-up is over
_LEAST_WARM_UP_STEPS = 4  # before a step that goes on compiling is given up
_MOST_WARM_UP_STEPS = 30
_NO_NUMBERS = "OSUMm"  # kinds of numpy's types that a device cannot hold: text, dates, objects


def first_array(aux: Aux) -> jax.Array:
    """Return the array of a step's aux that tells when the step is done.

    It is the one called loss, or the first where none is.

    Raises:
        MisuseError: There is none.
    """
    found = [
        (path, leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(aux)
        # Random keys are arrays that cannot be asked whether they are ready.
        if isinstance(leaf, jax.Array) and not jnp.issubdtype(leaf.dtype, jax.dtypes.extended)
    ]
    if not found:
        raise MisuseError(
            "step(state, batch) must return (state, aux) with a jax.Array in aux, as the loss; "
            f"found {type(aux).__name__} without one"
        )
    named = (leaf for path, leaf in found if path and _LOSS in str(path[-1]).lower())
    return next(named, found[0][1])


def is_ready(array: Any) -> bool:
    """Return whether the device is done with an array; waits for nothing."""
    return bool(array.is_deleted() or array.is_ready())


def copy_tree(tree: Any) -> Any:
    """Return a copy of a tree's containers and of its arrays; other leaves are the same."""
    return jax.tree.map(
        lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray | jax.Array) else leaf, tree
    )


def is_finite(array: jax.Array) -> bool:
    """Return whether an array holds no NaN and no infinity; whole numbers never do."""
    if array.is_deleted() or not jnp.issubdtype(array.dtype, jnp.inexact):
        return True
    return bool(np.isfinite(np.asarray(array)).all())


def to_device(batch: Batch) -> Batch:
    """Copy every array of a batch to the device; other leaves stay as they are.

    Whatever numpy takes for an array of numbers is one: a torch tensor on the CPU, for example.
    """
    return jax.tree.map(_moved, batch)


def _moved(leaf: Any) -> Any:
    array = array_of(leaf)
    return leaf if array is None else jax.device_put(array)


def array_of(leaf: Any) -> jax.Array | np.ndarray | None:
    """Return the array that goes to the device for a leaf, where it is now; None for none."""
    if isinstance(leaf, jax.Array):
        return leaf
    array = np.asarray(leaf) if hasattr(leaf, "__array__") else None
    if array is None or array.dtype.kind in _NO_NUMBERS or array.dtype.fields:
        return None
    return array


def batch_bytes(batch: Batch) -> int:
    """Return the bytes of a batch's arrays, of whatever library; without any, of its objects."""
    leaves = jax.tree.leaves(batch)
    sizes = [size for leaf in leaves if isinstance(size := getattr(leaf, "nbytes", None), int)]
    return sum(sizes) if sizes else sum(map(sys.getsizeof, leaves))


class StepRunner:
    """One training state and the step that moves it on.

    Args:
        factory: Makes `(state, step)`.
        host_batches: At least two batches as the loader gives them, used in rotation.
        clock: Seconds.
        synthetic: Makes the batches that the step is timed on alone; the host batches when left
            out.
    """

    def __init__(
        self,
        factory: StepFactory,
        host_batches: Sequence[Batch],
        clock: Clock,
        synthetic: BatchesFactory | None = None,
    ) -> None:
        self.state, self.step = make_step(factory)
        self._ready_aux: Aux = None
        self._clock = clock
        self.host_batches = host_batches
        self._host = cycle(host_batches)
        resident = host_batches if synthetic is None else _made_batches(synthetic)
        self._resident = cycle([jax.block_until_ready(to_device(one)) for one in resident])
        self.compilations = compilation_count()
        self.kept_state_bytes = 0
        self.donates_batches = False
        self.runs_in_a_thread = True
        self.devices: tuple[jax.Device, ...] = ()
        self.ready_before_next = 0
        self.asked_before_next = 0

    def advance(self, batch: Batch) -> jax.Array:
        """Dispatch one step and return the array that is ready when it is done."""
        self.state, aux = self.step(self.state, batch)
        done = first_array(aux)
        self.devices = tuple(done.sharding.device_set)
        return done

    def warm_up(self, limit_s: float) -> bool:
        """Run steps on resident and on host batches until nothing compiles any more.

        Args:
            limit_s: Seconds after which a step that goes on compiling is given up.

        Returns:
            Whether it is so far.
        """
        self._look_for_donation()
        self._look_for_threads()
        started, quiet = self._clock(), 0
        for steps in range(1, _MOST_WARM_UP_STEPS + 1):
            before = self.compilations()
            for batch in (*self._taken(self._resident, 1), *self._taken(self._host, 1)):
                jax.block_until_ready(self.advance(batch))
            quiet = quiet + 1 if self.compilations() == before else 0
            if quiet == _QUIET_STEPS:
                return True
            if steps >= _LEAST_WARM_UP_STEPS and self._clock() - started > limit_s and not quiet:
                return False
        return False

    def _look_for_donation(self) -> None:
        """Find out what a step leaves of the state and of the batch that it is given."""
        batch, before = copy_tree(next(self._resident)), _arrays(self.state)
        self.state, aux = jax.block_until_ready(self.step(self.state, batch))
        # A copy: what aux shares with a state goes with it.
        self._ready_aux = jax.block_until_ready(copy_tree(aux))
        after = {id(leaf) for leaf in _arrays(self.state)}
        kept = [one for one in before if id(one) not in after and not one.is_deleted()]
        self.kept_state_bytes = sum(one.nbytes for one in kept)
        self.donates_batches = any(one.is_deleted() for one in _arrays(batch))

    def _taken(self, batches: Iterator[Batch], count: int) -> list[Batch]:
        """Take some batches; copies, where the step would not leave the batch to the next one."""
        taken = list(islice(batches, count))
        return jax.block_until_ready(copy_tree(taken)) if self.donates_batches else taken

    def _look_for_threads(self) -> None:
        """Find out whether the step runs in a side thread: what jax calls a context may not."""
        with ThreadPoolExecutor(1, "netpipe-first-step-aside") as thread:
            try:
                thread.submit(self._resident_s, 1).result()
            except Exception:  # noqa: BLE001  # whatever the step needs there
                self.runs_in_a_thread = False

    def ready_aux(self) -> Aux:
        """Return the aux of a step that is done: the first one of the warm-up."""
        return self._ready_aux

    def measure_resident_s(self, steps: int) -> float:
        """Return the seconds of one step on resident batches, blocked once at the end."""
        return self._resident_s(steps, self._look_at)

    def _look_at(self, last: jax.Array) -> None:
        self.asked_before_next += 1
        self.ready_before_next += is_ready(last)

    def _resident_s(
        self, steps: int, before_next: Callable[[jax.Array], None] = lambda _: None
    ) -> float:
        batches = self._taken(self._resident, steps)
        started = self._clock()
        last = self.advance(batches[0])
        for batch in batches[1:]:
            before_next(last)
            last = self.advance(batch)
        jax.block_until_ready(last)
        return (self._clock() - started) / steps

    def catch_up(self) -> None:
        """Do a step and wait for it, and so for whatever a loop has left to the device."""
        for batch in self._taken(self._resident, 1):
            jax.block_until_ready(self.advance(batch))

    def measure_synced_s(self, steps: int) -> float:
        """Return the seconds of one step on resident batches, blocked after every step."""
        batches = self._taken(self._resident, steps)
        started = self._clock()
        for batch in batches:
            jax.block_until_ready(self.advance(batch))
        return (self._clock() - started) / steps

    def measure_transfer_s(self, steps: int) -> float:
        """Return the seconds of one step with a transfer of a cached host batch before each.

        When the clock starts, the first step is done, whose transfer nothing hides, and the next
        is under way: what is timed is a device that is kept busy.
        """
        batches = self._taken(self._host, steps + 2)
        first, last = (self.advance(to_device(batch)) for batch in batches[:2])
        jax.block_until_ready(first)
        # A step that is done as soon as it is dispatched is not under way any more: one more.
        rest = batches[2:] if is_ready(last) else batches[2:-1]
        started = self._clock()
        for batch in rest:
            last = self.advance(to_device(batch))
        jax.block_until_ready(last)
        return (self._clock() - started) / steps

    def measure_shadow_s(self, steps: int, puller: Puller, step_s: float) -> float:
        """Return the seconds of one resident step while the loader is drained beside it.

        The loader is pulled by the main thread, as in training: some can only be pulled there.

        Args:
            steps: Steps to run.
            puller: The loader, pulled at most once every `step_s` seconds.
            step_s: The time of a step alone.
        """
        with ThreadPoolExecutor(1, "netpipe-shadowed-step") as thread:
            stepping = thread.submit(self._resident_s, steps)
            due = self._clock() + step_s
            puller.pull()
            while wait([stepping], timeout=max(0.0, due - self._clock())).not_done:
                due = max(due, self._clock()) + step_s
                puller.pull()
            return stepping.result()


def _arrays(tree: Any) -> list[jax.Array]:
    return [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array)]


def make_step(factory: StepFactory) -> tuple[State, Step]:
    """Return what a step factory makes.

    Raises:
        MisuseError: It is not `(state, step)`.
    """
    made = factory()
    if not (isinstance(made, tuple) and len(made) == 2 and callable(made[1])):
        raise MisuseError(
            f"the step factory must return (state, step); found {type(made).__name__}"
        )
    return made


def _made_batches(factory: BatchesFactory) -> Sequence[Batch]:
    batches = factory()
    if len(batches) < _LEAST_RESIDENT:
        raise MisuseError(
            f"synthetic() must return at least {_LEAST_RESIDENT} batches; found {len(batches)}"
        )
    return batches


@cache
def compilation_count() -> Callable[[], int]:
    """Return a function that says how many compilations this process has done from now on."""
    seen = [0]

    def count(event: str, duration_secs: float, **kwargs: str | int) -> None:  # noqa: ARG001
        seen[0] += event == "/jax/core/compile/backend_compile_duration"

    jax.monitoring.register_event_duration_secs_listener(count)
    return lambda: seen[0]
