"""Running a step in every variation, on a clock that the step moves."""

from collections import UserDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, repeat
from threading import Event, current_thread, main_thread
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.device.detection import local_device
from netpipe.errors import LoaderFailedError, MisuseError
from netpipe.measuring.loader_puller import Puller
from netpipe.measuring.training import step_runner
from netpipe.measuring.training.step_runner import (
    StepRunner,
    batch_bytes,
    first_array,
    is_finite,
    make_step,
    to_device,
)
from tests.fakes import FakeClock

HOST_BATCHES = [{"x": np.full((2, 3), number, np.int32)} for number in (1, 2)]
STEP_S = 0.03
LIMIT_S = 100.0


@dataclass
class CountingStep:
    """A step whose state counts the steps, and that keeps its batches."""

    clock: FakeClock
    batches: list[Any] = field(default_factory=list)

    def __call__(self, state: int, batch: Any) -> tuple[int, dict[str, jax.Array]]:
        """Take `STEP_S` on the clock."""
        self.clock.sleep(STEP_S)
        self.batches.append(batch)
        return state + 1, {"loss": jnp.float32(state)}

    def seen(self) -> list[int]:
        """Return the value in each batch."""
        return [int(batch["x"][0, 0]) for batch in self.batches]


@pytest.fixture
def step(clock: FakeClock) -> CountingStep:
    """A step on the fake clock."""
    return CountingStep(clock)


@pytest.fixture
def stepper(step: CountingStep) -> StepRunner:
    """A runner of that step from state 0."""
    return StepRunner(lambda: (0, step), HOST_BATCHES, step.clock)


@pytest.mark.parametrize("aux", [None, 1.0, {"loss": np.float32(1)}, [jax.random.key(0)]])
def test_an_aux_without_an_array_is_misuse(aux: Any) -> None:
    """The completion of such a step cannot be observed."""
    with pytest.raises(MisuseError, match=f"jax.Array.*found {type(aux).__name__}"):
        first_array(aux)


def test_a_step_may_wait_in_its_own_way(clock: FakeClock) -> None:
    """A step without arrays in its aux is timed by its `wait`, on batches as they are."""
    seen, waited = list[Any](), list[Any]()

    def step(state: int, batch: Any) -> tuple[int, str]:
        seen.append(batch)
        return state + 1, f"aux {state}"

    def wait(aux: str) -> None:
        waited.append(aux)
        clock.sleep(2.0)

    step.wait = wait  # type: ignore[attr-defined]
    stepper = StepRunner(lambda: (0, step), HOST_BATCHES, clock)
    assert stepper.measure_resident_s(4) == 0.5
    assert waited == ["aux 3"]
    assert stepper.measure_synced_s(2) == 2.0
    assert seen[0] is HOST_BATCHES[0]
    assert stepper.measure_transfer_s(2) == 1.0


H100 = "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize(
    ("device", "aux", "key"),
    [
        (None, "no array", "unknown-x1"),
        (H100, "no array", "h100-sxm-80gb-x1"),
        (H100, jnp.zeros(1), "h100-sxm-80gb-x1"),
        ("cpu", "no array", local_device().key),
        (None, jnp.zeros(1), local_device().key),
        (object(), "no array", "unknown-x1"),
    ],
    ids=["unnamed", "named", "named although jax's", "cpu", "jax's", "not a name"],
)
def test_the_device_of_a_step_that_waits_in_its_own_way(
    clock: FakeClock, device: object, aux: object, key: str
) -> None:
    """It is the one that the step names, else that of its arrays, else unknown: never jax's."""

    def step(state: int, _: Any) -> tuple[int, object]:
        return state, aux

    step.wait = print  # type: ignore[attr-defined]
    step.device = device  # type: ignore[attr-defined]
    stepper = StepRunner(lambda: (0, step), HOST_BATCHES, clock)
    stepper.measure_resident_s(1)
    assert local_device(stepper.devices).key == key


def test_arrays_are_copied_to_the_device_and_the_rest_is_kept() -> None:
    """Arrays of numbers become jax's; other arrays and leaves stay as they are."""
    names, objects = np.array(["a", "b"]), np.array([None, {}])
    texts = names.astype(np.dtypes.StringDType())
    batch = {"x": np.arange(3, dtype=np.int32), "name": "a", "weight": 2}
    moved = to_device({**batch, "names": names, "objects": objects, "texts": texts})
    assert isinstance(moved["x"], jax.Array)
    assert moved["x"].tolist() == [0, 1, 2]
    assert (moved["name"], moved["weight"]) == ("a", 2)
    assert moved["names"] is names
    assert moved["objects"] is objects
    assert moved["texts"] is texts
    assert batch_bytes(batch) == 12


@dataclass
class Pair:
    """A batch of one array."""

    x: Any


class ForeignArray:
    """An array of another library, which NumPy can read."""

    nbytes = 24

    def __array__(self, *_: Any, **__: Any) -> Any:
        """Give its values."""
        return np.arange(6, dtype=np.float32)


def test_the_bytes_of_a_batch_that_jax_takes_for_a_leaf() -> None:
    """The fields of a dataclass and the values of a mapping count."""
    array = np.zeros(4, np.float32)
    assert batch_bytes(UserDict(x=array)) == batch_bytes(Pair(array)) == 16


def test_arrays_of_other_libraries_are_arrays() -> None:
    """Arrays of other libraries count in bytes, and are copied, wherever they are in a batch."""
    batch = (ForeignArray(), {"y": [ForeignArray()]}, "text")
    moved = to_device(batch)
    assert moved[1]["y"][0].tolist() == moved[0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert moved[2] == "text"
    assert batch_bytes(batch) == batch_bytes(moved) == 48


@pytest.mark.parametrize("made", [None, 1, (1, 2), (1, print, 3), [0, print]])
def test_a_step_factory_makes_a_pair(made: Any) -> None:
    """Anything but (state, callable) is misuse."""

    def init() -> Any:
        return made

    said = rf"init must return \(state, step\); found {type(made).__name__}. Name a function"
    with pytest.raises(MisuseError, match=said):
        make_step(init)


@pytest.mark.parametrize(("batches", "count"), [([], 0), (HOST_BATCHES[:1], 1)])
def test_synthetic_batches_are_two_at_least(
    step: CountingStep, batches: list[Any], count: int
) -> None:
    """A step is timed on at least two batches."""
    with pytest.raises(MisuseError, match=rf"synthetic\(\).* 2 batches; found {count}"):
        StepRunner(lambda: (0, step), HOST_BATCHES, step.clock, lambda: batches)


def test_a_block_gives_the_time_of_one_step(stepper: StepRunner, step: CountingStep) -> None:
    """The seconds do not depend on the number of steps; the state advances."""
    assert stepper.measure_resident_s(4) == pytest.approx(STEP_S)
    assert stepper.measure_synced_s(3) == pytest.approx(STEP_S)
    assert stepper.measure_transfer_s(2) == pytest.approx(STEP_S)
    # One before those of S2, and one more for a step that is done at once.
    assert stepper.state == len(step.batches) == 4 + 3 + (1 + 2 + 1)


def test_batches_are_used_in_rotation(stepper: StepRunner, step: CountingStep) -> None:
    """Two batches on the device take turns, so none stays in the caches."""
    stepper.measure_resident_s(3)
    stepper.measure_transfer_s(2)
    assert step.seen() == [1, 2, 1, 1, 2, 1, 2]
    assert all(isinstance(batch["x"], jax.Array) for batch in step.batches)


def test_synthetic_batches_stand_in_for_resident_ones(step: CountingStep) -> None:
    """The step alone runs on synthetic batches; transfers are timed with the loader's."""
    synthetic = [{"x": np.full((2, 3), number, np.int32)} for number in (8, 9)]
    stepper = StepRunner(lambda: (0, step), HOST_BATCHES, step.clock, lambda: synthetic)
    stepper.measure_resident_s(2)
    stepper.measure_synced_s(2)
    stepper.measure_transfer_s(2)
    assert step.seen() == [8, 9, 8, 9, 1, 2, 1, 2]
    assert stepper.measure_loaded_s(2) == pytest.approx(STEP_S)
    assert step.seen()[-2:] == [1, 2]
    assert all(isinstance(batch["x"], jax.Array) for batch in step.batches)


def test_other_batches_of_the_loader_replace_the_first_ones(step: CountingStep) -> None:
    """Batches of another form would compile something, so they are not used."""
    synthetic = [{"x": np.full((2, 3), number, np.int32)} for number in (8, 9)]
    stepper = StepRunner(lambda: (0, step), HOST_BATCHES, step.clock, lambda: synthetic)
    for others in (
        [{"x": np.full((2, 3), 5, np.int32)}],
        [{"x": np.full((2, 4), 5, np.int32)}] * 2,
        [{"x": np.full((2, 3), 5, np.int64)}] * 2,
        [{"y": np.full((2, 3), 5, np.int32)}] * 2,
    ):
        stepper.renew_batches(others)
    stepper.measure_loaded_s(2)
    stepper.renew_batches([{"x": np.full((2, 3), number, np.int32)} for number in (5, 6)])
    stepper.measure_loaded_s(2)
    stepper.measure_transfer_s(2)
    stepper.measure_resident_s(1)
    assert step.seen() == [1, 2, 5, 6, 5, 6, 5, 6, 8]


def test_without_synthetic_batches_the_step_is_timed_once(stepper: StepRunner) -> None:
    """The step alone is timed on the loader's batches already."""
    assert stepper.measure_loaded_s(2) is None


def test_the_idle_probe_looks_before_every_next_step(
    stepper: StepRunner, step: CountingStep
) -> None:
    """A step that is done at once is ready when the next one is dispatched; a loader hides that."""
    stepper.measure_shadow_s(5, Puller(lambda: repeat(0), step.clock), step_s=1000.0)
    assert (stepper.asked_before_next, stepper.ready_before_next) == (0, 0)
    stepper.measure_resident_s(4)
    stepper.measure_resident_s(3)
    assert (stepper.asked_before_next, stepper.ready_before_next) == (5, 5)


def test_warm_up_ends_when_nothing_compiles(step: CountingStep) -> None:
    """A step runs until it has not compiled three times in a row."""
    jitted = jax.jit(lambda state, batch: (state + 1, {"loss": batch["x"].sum() * state}))
    stepper = StepRunner(lambda: (jnp.int32(0), jitted), HOST_BATCHES, step.clock)
    before = stepper.compilations()
    stepper.warm_up(LIMIT_S)
    compiled = stepper.compilations()
    assert compiled > before
    stepper.measure_resident_s(3)
    assert stepper.compilations() == compiled
    # One to see what it leaves behind, which compiles, one in a side thread, three quiet pairs.
    assert int(stepper.state) == 1 + 1 + 2 * 3 + 3


def test_warm_up_gives_up_on_a_step_that_compiles_for_ever(
    step: CountingStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The warm-up is limited in steps and, after some, in time; compilations are counted."""
    monkeypatch.setattr(step_runner, "_MAX_WARM_UP_STEPS", 6)
    monkeypatch.setattr(step_runner, "_MIN_WARM_UP_STEPS", 2)
    shapes = count(1)
    steps = []

    def growing(state: int, _: Any) -> tuple[int, jax.Array]:
        steps.append(state)
        step.clock.sleep(STEP_S)
        return state, jax.jit(lambda x: jnp.tanh(x).sum())(np.zeros(next(shapes), np.float32))

    stepper = StepRunner(lambda: (0, growing), HOST_BATCHES, step.clock)
    before = stepper.compilations()
    stepper.warm_up(LIMIT_S)
    assert len(steps) == 1 + 1 + 2 * 6
    assert stepper.compilations() - before >= len(steps)
    stepper.warm_up(limit_s=STEP_S)
    assert len(steps) == 2 * (1 + 1) + 2 * 6 + 2 * 2


@pytest.mark.parametrize("donated", [True, False])
def test_the_bytes_of_an_undonated_state_are_counted(step: CountingStep, donated: bool) -> None:
    """The bytes of a state count unless it is donated."""
    jitted = jax.jit(
        lambda state, batch: (state + 1, {"loss": batch["x"].sum()}),
        donate_argnums=(0,) if donated else (),
    )
    state = jnp.zeros((5, 7), jnp.float32)
    stepper = StepRunner(lambda: (state, jitted), HOST_BATCHES, step.clock)
    stepper.warm_up(LIMIT_S)
    assert stepper.kept_state_bytes == (0 if donated else 5 * 7 * 4)


@pytest.mark.parametrize("anywhere", [True, False])
def test_a_step_may_need_the_main_thread(step: CountingStep, anywhere: bool) -> None:
    """A step that fails in a side thread runs in the main one."""

    def choosy(state: int, batch: Any) -> tuple[int, Any]:
        if not anywhere and current_thread() is not main_thread():
            raise RuntimeError("no mesh here")
        return step(state, batch)

    stepper = StepRunner(lambda: (0, choosy), HOST_BATCHES, step.clock)
    stepper.warm_up(LIMIT_S)
    assert stepper.runs_in_a_thread is anywhere


@pytest.mark.parametrize(
    ("values", "finite"),
    [([1.0, 2.0], True), ([1.0, np.nan], False), ([np.inf], False), ([3], True)],
)
def test_a_loss_is_a_number_or_not(values: list[float], finite: bool) -> None:
    """NaN and infinity are not finite, in bfloat16 too; integers always are."""
    array = jnp.asarray(values)
    assert is_finite(array) is finite
    if array.dtype == jnp.float32:
        assert is_finite(array.astype(jnp.bfloat16)) is finite


def test_the_shadow_loader_is_pulled_beside_the_steps(step: CountingStep) -> None:
    """The main thread takes at most one batch a step time; the steps run in another thread."""
    pulled = Event()
    given: list[int] = []

    def loader() -> Iterator[int]:
        for number in count():
            assert current_thread() is main_thread()
            given.append(number)
            if number > 0:  # the first is the puller's own
                pulled.set()
            yield number

    def waiting_step(state: int, batch: Any) -> tuple[int, Any]:
        assert pulled.wait(10), "nobody pulled"
        return step(state, batch)

    stepper = StepRunner(lambda: (0, waiting_step), HOST_BATCHES, step.clock)
    puller = Puller(loader, step.clock)
    assert stepper.measure_shadow_s(5, puller, step_s=1000.0) == pytest.approx(STEP_S)
    assert given == [0, 1]


def test_a_failing_loader_beside_the_steps_is_raised(step: CountingStep) -> None:
    """The loader's exception reaches the main thread."""

    def loader() -> Iterator[int]:
        yield 0
        raise OSError("disk gone")

    stepper = StepRunner(lambda: (0, step), HOST_BATCHES, step.clock)
    puller = Puller(loader, step.clock)
    with pytest.raises(LoaderFailedError, match="disk gone"):
        stepper.measure_shadow_s(1, puller, STEP_S)


class Pipelined:
    """A device whose copies run beside its steps."""

    def __init__(self, clock: FakeClock, copy_s: float) -> None:
        self.clock, self.copy_s, self.copied_s, self.done_s = clock, copy_s, 0.0, 0.0

    def __call__(self, state: int, _: Any) -> tuple[int, Any]:
        """Queue a copy and a step behind it."""
        self.copied_s = max(self.copied_s, self.clock()) + self.copy_s
        self.done_s = max(self.done_s, self.copied_s) + STEP_S
        return state, {"loss": jnp.float32(self.done_s)}


@pytest.mark.parametrize(("copy_s", "expected_s"), [(0.0, STEP_S), (0.029, STEP_S), (0.06, 0.06)])
@pytest.mark.parametrize("steps", [1, 2, 10])
def test_a_copy_that_a_step_hides_costs_nothing(
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    copy_s: float,
    expected_s: float,
    steps: int,
) -> None:
    """The first copy, which nothing hides, is not timed."""
    stepper = StepRunner(lambda: (0, Pipelined(clock, copy_s)), HOST_BATCHES, clock)

    def wait_for(array: Any) -> None:
        clock.now_s = max(clock.now_s, float(array))

    monkeypatch.setattr(jax, "block_until_ready", wait_for)
    monkeypatch.setattr(step_runner, "is_ready", lambda array: float(array) <= clock())
    assert stepper.measure_transfer_s(steps) == pytest.approx(expected_s)


def test_the_loss_tells_when_a_step_is_done() -> None:
    """The loss is found by its name; otherwise the first array counts, except a random key."""
    loss, other = jnp.float32(1), jnp.float32(2)
    assert first_array({"a": other, "train_loss": loss}) is loss
    assert first_array((jax.random.key(0), 3.0, [None, np.zeros(2), other])) is other


def test_results_donated_with_the_state_do_not_end_a_measurement(step: CountingStep) -> None:
    """An aux that shares an array with a donated state is copied while it is alive."""
    jitted = jax.jit(lambda n, batch: (n + 1, batch["x"].sum()), donate_argnums=0)

    def sharing(state: Any, batch: Any) -> tuple[Any, Any]:
        state, loss = jitted(state, batch)
        return state, {"global_step": state, "loss": loss}

    stepper = StepRunner(lambda: (jnp.zeros(3), sharing), HOST_BATCHES, step.clock)
    stepper.warm_up(LIMIT_S)
    assert (stepper.ready_aux["global_step"] == 1).all()


@pytest.mark.parametrize(
    ("batch", "empty"),
    [([1.0, 2.0], False), (object(), False), ({"x": np.zeros((0, 3))}, True), ([], True)],
)
def test_only_arrays_can_be_empty(batch: Any, empty: bool) -> None:
    """A batch of numbers or objects is not empty; one whose arrays are empty is."""
    assert (batch_bytes(batch) == 0) is empty


@pytest.mark.parametrize("donated", [True, False])
def test_a_step_may_donate_its_batch(step: CountingStep, donated: bool) -> None:
    """If batches are donated, each step gets a copy, made before the clock starts."""
    jitted = jax.jit(
        lambda state, batch: (state + 1, {"loss": batch["x"].sum(), "x": batch["x"] + 1}),
        donate_argnums=(0, 1) if donated else (),
    )
    stepper = StepRunner(lambda: (jnp.int32(0), jitted), HOST_BATCHES, step.clock)
    stepper.warm_up(LIMIT_S)
    assert stepper.donates_batches is donated
    before = int(stepper.state)
    stepper.measure_resident_s(3)
    stepper.measure_synced_s(3)
    stepper.measure_transfer_s(3)
    assert int(stepper.state) == before + 3 + 3 + 5


def test_few_large_batches_are_donated_at_once(
    step: CountingStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies for a whole block may not fit beside the model; the time per step stays correct."""
    monkeypatch.setattr(step_runner, "_MAX_COPIED_BYTES", 0)
    stepper = StepRunner(lambda: (0, step), HOST_BATCHES, step.clock)
    stepper.donates_batches = True
    for measure in (stepper.measure_resident_s, stepper.measure_synced_s):
        before = len(step.batches)
        assert measure(20) == pytest.approx(STEP_S)
        assert len(step.batches) == before + 4
    assert stepper.measure_transfer_s(20) == pytest.approx(STEP_S)


def test_the_transfer_before_a_synchronous_step_is_not_shortened(clock: FakeClock) -> None:
    """A step with its own `wait` cannot be asked whether it is done; this one is, when called."""

    def step(state: int, batch: Any) -> tuple[int, Any]:
        clock.sleep(2.0)
        return state, batch

    step.wait = lambda aux: aux  # type: ignore[attr-defined]
    stepper = StepRunner(lambda: (0, step), HOST_BATCHES, clock)
    assert [stepper.measure_transfer_s(steps) for steps in (1, 2, 3)] == [2.0, 2.0, 2.0]
