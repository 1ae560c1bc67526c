"""The emulated accelerator: asynchronous, in order, and waited for like a real one."""

import gc
import time
from collections.abc import Callable
from threading import Timer
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.errors import MisuseError
from netpipe.measuring.training.emulated_step import EmulatedState, EmulatedStep, Engines, OnlyLoss
from netpipe.measuring.training.step_runner import compilation_count
from tests.measuring.simulated import HeldDevice

BATCH = {"x": np.zeros((4, 2), np.int32)}
STEP_S = 0.25


def started(step_s: float = STEP_S, real: Any = None) -> tuple[EmulatedStep, Any]:
    """Make a device and run its first step, which compiles; return its state too."""
    step = EmulatedStep(step_s, real)
    state, aux = step(step.initial_state(), BATCH)
    jax.block_until_ready(aux)
    return step, state


@pytest.mark.parametrize(
    ("dispatched_us", "copied_us", "done_us"),
    [
        ([0, 0, 100, 899, 1_100], [0] * 5, [300, 600, 900, 1_200, 1_500]),  # without gaps
        ([0, 1_000], [0, 0], [300, 1_300]),  # idle until the second dispatch
        # The second copy is hidden behind the first step, the third delays its step.
        ([0, 100, 200, 300], [100, 200, 5_000, 0], [400, 700, 5_600, 5_900]),
    ],
)
def test_steps_and_copies_queue_on_their_engines(
    dispatched_us: list[int], copied_us: list[int], done_us: list[int]
) -> None:
    """A step begins when it is dispatched, its copy is done and the previous step is done."""
    engines = Engines(step_s=0.0003, copy_bytes_per_s=1e9)  # a byte takes a nanosecond
    found = map(
        engines.dispatch, (1000 * us for us in dispatched_us), (1000 * us for us in copied_us)
    )
    assert list(found) == [1000 * us for us in done_us]


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes that each step copied."""
    seen: list[int] = []

    def dispatch(_: Engines, now_ns: int, copied_bytes: int) -> int:
        seen.append(copied_bytes)
        return now_ns

    monkeypatch.setattr(Engines, "dispatch", dispatch)
    return seen


def test_a_resident_batch_is_copied_once(copied: list[int]) -> None:
    """A host batch is copied at every step, an array on the device only once."""
    step = EmulatedStep(0.001)
    state = step.initial_state()
    host = {"x": np.zeros((4, 2), np.int32), "name": "a", "number": 3}
    resident = {**host, "x": jnp.asarray(host["x"])}
    another = {**host, "x": jnp.asarray(host["x"])}
    for batch in (host, host, resident, resident, another, resident):
        state, _ = step(state, batch)
    assert copied == [32, 32, 32, 0, 32, 0]


class Tensor:
    """An array of another library."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Return the values."""
        return self._values


def test_an_array_of_any_library_is_copied(copied: list[int]) -> None:
    """A torch tensor counts as the array that it holds; the aux follows its shape."""
    step = EmulatedStep(0.001, lambda: (0, lambda state, batch: (state, {"loss": batch["x"] * 2})))
    state = step.initial_state()
    for rows in (4, 4, 6):
        state, aux = step(state, {"x": Tensor(np.zeros((rows, 2), np.float32))})
        assert aux["loss"].shape == (rows, 2)
    assert copied == [32, 32, 48]


@pytest.mark.parametrize("values", [["a", "b"], [b"a", b"b"], [None, {}], ["2024-01-01"]])
def test_leaves_that_a_device_cannot_hold_stay(copied: list[int], values: list[Any]) -> None:
    """Text, dates and objects in a batch are not copied, and the step may use them."""
    kept = np.array(values, "M8[D]" if values == ["2024-01-01"] else None)
    step = EmulatedStep(0.001, lambda: (0, lambda state, batch: (state, {"loss": batch["x"]})))
    _, aux = step(step.initial_state(), {**BATCH, "kept": kept, "tensor": Tensor(kept)})
    assert aux["loss"].shape == (4, 2)
    assert copied == [32]


def test_resident_batches_are_not_kept_alive(copied: list[int]) -> None:
    """An array without other references is forgotten, and its successor is copied."""
    step = EmulatedStep(0.001)
    state = step.initial_state()
    for number in range(4):
        state, _ = step(state, {"x": jnp.full((2,), number)})
        gc.collect()
        assert len(step._on_device) == 0
    assert copied == [8, 8, 8, 8]


@pytest.mark.parametrize(
    "read",
    [
        lambda loss, _: float(loss),
        lambda loss, _: bool(loss),
        lambda loss, _: np.asarray(loss),
        lambda loss, _: jax.device_get(loss),
        lambda loss, _: f"{loss}",
        lambda loss, _: loss.item(),
        lambda loss, _: loss.block_until_ready(),
        lambda loss, _: float(loss + 1),
        lambda loss, _: jax.block_until_ready(jax.jit(jnp.square)(loss)),
        lambda _, state: jax.block_until_ready(state),
    ],
)
def test_reading_a_result_waits_for_it(
    read: Callable[[Any, Any], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every way to read a loss or a state waits until the device is done with it."""
    step, state = started(0.0)
    device, ended = HeldDevice(monkeypatch), list[bool]()
    state, aux = step(state, BATCH)
    assert not aux["loss"].is_ready()

    def end() -> None:
        ended.append(True)
        device.end()

    Timer(0.02, end).start()
    read(aux["loss"], state)
    assert ended


def test_waiting_uses_next_to_no_cpu() -> None:
    """An emulated device computes for a second and uses less than half a second of CPU time."""
    step, state = started()
    begun_cpu_s = time.process_time()
    for _ in range(4):
        state, aux = step(state, BATCH)
    jax.block_until_ready(aux)
    assert time.process_time() - begun_cpu_s < 0.5 * 4 * STEP_S


def batch_of(rows: int, dtype: Any = np.int32, **more: object) -> dict[str, Any]:
    """Make a batch."""
    return {"x": np.zeros((rows, 2), dtype), **more}


@pytest.mark.parametrize(
    ("batch", "compiles"),
    [
        (batch_of(4), 0),
        (batch_of(5), 1),
        (batch_of(4, np.float32), 1),
        ({"x": jnp.zeros((4, 2), jnp.int32)}, 0),
        (batch_of(4, np.int64), 0),  # which jax makes int32
        (batch_of(4, y=np.zeros(1, np.int32)), 1),
    ],
    ids=["same", "rows", "dtype", "device", "int64", "key"],
)
def test_a_new_shape_compiles_anew(batch: dict[str, Any], compiles: int) -> None:
    """A new shape, dtype or structure compiles once, as with jax.jit."""
    step, state = started(0.0001)
    count = compilation_count()
    before = count()
    for _ in range(2):
        state, aux = step(state, batch)
        jax.block_until_ready(aux)
        assert count() - before == compiles


def test_leaves_that_are_not_arrays_do_not_compile() -> None:
    """File names and step numbers in a batch may change."""
    step, state = started(0.0001)
    count = compilation_count()
    state, _ = step(state, batch_of(4, name="a", number=1))
    before = count()
    step(state, batch_of(4, name="b", number=2))
    assert count() == before


def test_the_aux_has_the_shapes_of_the_real_step() -> None:
    """The real step is traced once and never run."""
    seen: list[bool] = []

    def real_step(state: Any, batch: Any) -> tuple[Any, Any]:
        seen.append(isinstance(batch["x"], jax.core.Tracer))
        loss = (batch["x"] @ state).sum(axis=1)
        return state, {"loss": loss, "more": (jnp.int32(3), loss.astype(jnp.bfloat16), None)}

    step, state = started(0.001, lambda: (jnp.ones((2, 5)), real_step))
    _, aux = step(state, BATCH)
    described = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), aux)
    assert described == {
        "loss": ((4,), jnp.float32),
        "more": (((), jnp.int32), ((4,), jnp.bfloat16), None),
    }
    assert seen == [True]


def test_a_large_state_is_never_made() -> None:
    """The factory is traced too: its state needs no memory."""

    def factory() -> tuple[Any, Any]:
        state = jnp.zeros((1 << 30, 1 << 10))
        return state, lambda state, batch: (state, {"loss": state.sum() + batch["x"].sum()})

    _, state = started(0.001, factory)
    assert len(jax.tree.leaves(state)) == 1


def test_a_factory_that_cannot_be_traced_is_run() -> None:
    """A factory that reads values makes its state, and the step is traced on it."""
    made: list[bool] = []

    def factory() -> tuple[Any, Any]:
        weights = float(jnp.ones(()) + 1)
        made.append(True)
        return {"w": weights, "name": "a"}, lambda state, batch: (state, {"loss": batch["x"] * 2})

    step, state = started(0.001, factory)
    _, aux = step(state, BATCH)
    assert aux["loss"].shape == (4, 2)
    assert made == [True]


def test_a_step_that_reads_values_is_misuse() -> None:
    """A step that cannot be traced is refused, with a way out."""

    def reads(state: Any, batch: Any) -> tuple[Any, Any]:
        return state, {"loss": float(batch["x"].sum())}

    step = EmulatedStep(0.001, lambda: (0, reads))
    with pytest.raises(MisuseError, match=r"traced: .* Omit the") as raised:
        step(step.initial_state(), BATCH)
    assert "\n" not in str(raised.value)


def test_an_error_of_the_step_is_its_own() -> None:
    """An error that the real step raises about a batch is raised as it is."""

    def refuses(*_: object) -> tuple[Any, Any]:
        raise KeyError("targets")

    step = EmulatedStep(0.001, lambda: (0, refuses))
    with pytest.raises(KeyError, match="targets"):
        step(step.initial_state(), BATCH)


def test_a_foreign_state_is_misuse() -> None:
    """A loop that makes its own state needs the real step."""
    with pytest.raises(MisuseError, match="found dict"):
        EmulatedStep(0.001)({}, BATCH)  # type: ignore[arg-type]


def test_a_step_says_that_it_can_only_be_called() -> None:
    """The attributes of a jitted function are refused; names of Python's protocols are absent."""
    step = EmulatedStep(0.001)
    with pytest.raises(MisuseError, match=r"step\.lower"):
        step.lower  # noqa: B018  # reading it is the point
    with pytest.raises(AttributeError) as raised:
        step.__array__  # noqa: B018  # reading it is the point
    assert not isinstance(raised.value, MisuseError)


@pytest.fixture
def state() -> EmulatedState:
    """A state."""
    return EmulatedState(jnp.zeros((8, 8)))


@pytest.fixture
def aux() -> OnlyLoss:
    """An aux."""
    return OnlyLoss(loss=jnp.float32(2))


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda state: state.params, "state.params was read"),
        (lambda state: state.token, "state.token was read"),
        (lambda state: state["params"], r"state\['params'\] was read"),
        (list, "the state .*iterated"),
        (dict, "the state .*iterated"),
        (lambda state: state.replace(step=1), "state.replace was read"),
    ],
)
def test_reading_a_state_is_misuse(
    state: EmulatedState, read: Callable[[Any], object], words: str
) -> None:
    """The message names the attribute that was read, and a way out."""
    with pytest.raises(MisuseError, match=f"{words}.*--accelerator auto"):
        read(state)


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (lambda aux: aux["accuracy"], r"aux\['accuracy'\] was read"),
        (lambda aux: aux.loss, "aux.loss was read"),
        (float, r"float\(aux\) was called"),
    ],
)
def test_an_aux_says_that_it_has_a_loss_alone(
    aux: OnlyLoss, read: Callable[[Any], object], words: str
) -> None:
    """The message names the key that was read, and the way to get it."""
    with pytest.raises(MisuseError, match=f"{words}.*--step"):
        read(aux)


def test_an_aux_is_a_dict_all_the_same(aux: OnlyLoss) -> None:
    """An aux works like a dict of metrics."""
    assert list(aux) == ["loss"]
    assert {name: float(value) for name, value in aux.items()} == {"loss": 2.0}
    assert isinstance(jax.device_get(aux), dict)
    assert jax.tree.map(float, aux)["loss"] == 2.0


def test_a_state_is_a_pytree(state: EmulatedState) -> None:
    """The only leaf of a state passes through `jax.tree` and `jax.jit`."""
    (token,) = jax.tree.leaves(state)
    assert token.shape == (8, 8)
    assert isinstance(jax.jit(lambda state: state)(state), EmulatedState)


def test_protocols_find_nothing(state: EmulatedState, aux: OnlyLoss) -> None:
    """`hasattr` finds no attribute, and NumPy takes it for an object."""
    assert not hasattr(state, "__array__")
    assert not hasattr(state, "params")
    assert getattr(aux, "loss", None) is None
    assert np.asarray(state, dtype=object).shape == ()


def test_the_runtime_bounds_how_many_are_in_flight() -> None:
    """Dispatching runs ahead as far as the runtime allows a real device."""
    step, state = started(0.01)
    losses = []
    for _ in range(80):
        state, aux = step(state, BATCH)
        losses.append(aux["loss"])
    assert sum(not loss.is_ready() for loss in losses) <= 40
    jax.block_until_ready(losses)


def test_steps_are_done_in_order_and_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three steps take three step times and end in order."""
    device, step = HeldDevice(monkeypatch), EmulatedStep(STEP_S)
    state, losses = step.initial_state(), []
    for _ in range(3):
        state, aux = step(state, BATCH)
        losses.append(aux["loss"])
    device.end(2)
    losses[1].block_until_ready()
    assert losses[0].is_ready()
    assert not losses[2].is_ready()
    device.end()
    losses[2].block_until_ready()
    assert device.sleeps_s == pytest.approx([STEP_S, 2 * STEP_S, 3 * STEP_S])
