"""A watched run: its figures on a fake clock, its log, and what must never reach the training."""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain, islice, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import jsonschema
import numpy as np
import pytest

import netpipe
from netpipe.errors import MisuseError
from netpipe.watching import watcher as watcher_module
from netpipe.watching.logs import Log
from netpipe.watching.watcher import Watcher
from tests.fakes import FakeClock
from tests.schemas import build_schema
from tests.watching.conftest import Step, Watch, loading

LOAD_S, STEP_S = 0.030, 0.020


def train(watched: Watcher, clock: FakeClock, steps: int, *, syncs: bool = False) -> None:
    """Run steps on a device that is busy for `STEP_S` after each call."""
    done_s = 0.0
    for _ in islice(watched, steps):
        done_s = max(done_s, clock()) + STEP_S
        if syncs:
            clock.sleep(done_s - clock())
        watched.on_step_end({"loss": Step(clock, done_s)})


def start(watch: Watch, clock: FakeClock, load_s: float, log: Path | None = None) -> Watcher:
    """Watch a loader that takes `load_s` for a batch in the loop's thread."""
    made: list[Watcher] = []
    made.append(watch(loading(clock, load_s, lambda: made[0]), log))
    return made[0]


def window_of(watched: Watcher) -> Any:
    """Close the window, and return its figures."""
    watched.close_window()
    assert watched._latest is not None
    return watched._latest.figures


def test_an_idle_device_is_told_from_a_waiting_host(watch: Watch, clock: FakeClock) -> None:
    """A step of 20 ms hides two thirds of a wait of 30 ms; the device idles for the rest."""
    watched = start(watch, clock, LOAD_S)
    train(watched, clock, 100)
    found = window_of(watched)
    assert found.waiting_fraction == pytest.approx(1.0, abs=0.02)
    assert found.exposed_fraction.median == pytest.approx(1 / 3, abs=0.1)
    assert (found.batches, found.synced_fraction) == (100, 0.0)
    assert found.step_s == pytest.approx(LOAD_S)
    assert watched._latest is not None
    assert watched._latest.verdict.kind == "loader-bound"


def test_a_loop_that_reads_each_result_is_seen(watch: Watch, clock: FakeClock) -> None:
    """Every request then finds the step done."""
    watched = start(watch, clock, LOAD_S)
    train(watched, clock, 50, syncs=True)
    found = window_of(watched)
    assert found.synced_fraction == pytest.approx(1.0, abs=0.03)
    assert found.step_s == pytest.approx(LOAD_S + STEP_S)
    assert found.waiting_fraction == pytest.approx(0.6, abs=0.02)


def test_a_fast_loader_is_healthy(watch: Watch, clock: FakeClock) -> None:
    """The host runs ahead and waits for a fast loader all the time, but the device works."""
    watched = start(watch, clock, 0.001)
    train(watched, clock, 300)
    found = window_of(watched)
    assert found.exposed_fraction.median < 0.01
    assert watched._latest is not None
    assert watched._latest.verdict.kind == "healthy"


def test_a_wait_belongs_to_the_windows_in_which_it_lies(watch: Watch, clock: FakeClock) -> None:
    """A wait of 25 s is all of two windows, and half of the third."""
    fractions: list[float] = []

    def hanging() -> Iterator[int]:
        yield 0
        for _ in range(2):
            clock.sleep(10.0)
            fractions.append(window_of(watched).waiting_fraction)
        clock.sleep(5.0)
        yield 1

    watched = watch(hanging())
    assert next(watched) == 0
    watched.close_window()
    assert next(watched) == 1
    clock.sleep(5.0)
    fractions.append(window_of(watched).waiting_fraction)
    assert fractions == pytest.approx([1.0, 1.0, 0.5])


def test_a_pause_of_the_training_is_no_window(
    watch: Watch, clock: FakeClock, tmp_path: Path
) -> None:
    """An evaluation takes no batches from the loader, and does not wait for them."""
    watched = watch(iter(range(3)), tmp_path / "run.jsonl")
    next(watched)
    watched.close_window()
    clock.sleep(60.0)
    watched.close_window()
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 1


def test_a_recovery_is_told_without_advice(
    watch: Watch, clock: FakeClock, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is nothing to do next."""
    made: list[Watcher] = []
    slow, fast = (loading(clock, load_s, lambda: made[0]) for load_s in (LOAD_S, 0.001))
    made.append(watch(chain(islice(slow, 100), fast)))
    for steps in (100, 300):
        train(made[0], clock, steps)
        made[0].close_window()
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("netpipe: loader-bound from batch 0 on")
    assert last.startswith("netpipe: healthy from batch 100 on")
    assert last.endswith("of the time")


def test_each_window_is_a_line_of_the_schema(
    watch: Watch, clock: FakeClock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lines agree with `netpipe.training/1`; a change of the verdict is told once."""
    log = tmp_path / "logs" / "run.jsonl"
    watched = start(watch, clock, LOAD_S, log)
    for _ in range(3):
        train(watched, clock, 40)
        watched.close_window()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        jsonschema.validate(line, build_schema("training.1"))
    assert [line["batches_before"] for line in lines] == [0, 40, 80]
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert told[0].startswith("netpipe: loader-bound from batch 0 on: the device is idle")
    assert watched.figures()["netpipe/exposed_fraction/median"] > 0.2
    assert watched.figures()["netpipe/batches"] == 40


@pytest.mark.parametrize(
    ("kind", "flops", "mfu"),
    [
        ("NVIDIA H100 80GB HBM3", 989e11, 0.125),
        ("NVIDIA H100 80GB HBM3", None, None),
        ("cpu", 989e11, None),
    ],
)
def test_mfu_needs_the_flops_and_the_peak(
    watch: Watch, clock: FakeClock, kind: str, flops: float | None, mfu: float | None
) -> None:
    """There are five steps a second of a tenth of a peak, on four devices that share each step."""
    watched = watch(repeat({"x": 0}), flops_per_step=flops)
    loss = Step(clock, 0.0)
    devices = [SimpleNamespace(device_kind=kind)] * 4
    vars(loss)["sharding"] = SimpleNamespace(device_set=devices)
    for _ in range(50):
        next(watched)
        watched.on_step_end(loss)
        clock.sleep(0.2)
    watched.close_window()
    assert watched._latest is not None
    assert watched._latest.mfu == (mfu and pytest.approx(mfu))
    assert ("netpipe/mfu" in watched.figures()) == (mfu is not None)


@pytest.mark.parametrize(
    ("batch", "tokens_per_s"),
    [
        ({"image": np.zeros((4, 8, 8, 3)), "label": np.zeros(4)}, None),
        ({"ids": np.zeros((4, 8)), "attention_mask": np.ones((4, 8))}, 160.0),
    ],
)
def test_only_batches_with_a_mask_have_tokens(
    watch: Watch, clock: FakeClock, batch: dict[str, np.ndarray], tokens_per_s: float | None
) -> None:
    """Without a mask, the elements of a batch may be pixels, so no tokens are reported."""
    watched = watch(repeat(batch))
    for _ in islice(watched, 10):
        clock.sleep(0.2)
    watched.close_window()
    figures = watched.figures()
    assert figures["netpipe/examples_per_s"] == pytest.approx(20.0)
    assert figures.get("netpipe/tokens_per_s") == (tokens_per_s and pytest.approx(tokens_per_s))


def test_a_deleted_loss_has_devices(watch: Watch) -> None:
    """The window ends as usual, without the MFU, because a CPU has no known peak."""
    watched = watch(repeat({"x": 0}), flops_per_step=1e9)
    next(watched)
    loss = jnp.ones(())
    watched.on_step_end({"loss": loss})
    loss.delete()
    watched.close_window()
    assert watched._latest is not None
    assert watched._latest.mfu is None


def test_a_log_that_cannot_be_written_ends_alone(
    watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is one warning, and the batches go on."""
    (tmp_path / "file").touch()
    log = tmp_path / "file" / "run.jsonl"
    watched = watch(iter(range(6)), log)
    for _ in range(2):
        next(watched)
        watched.close_window()
    assert list(watched) == [2, 3, 4, 5]
    told = capsys.readouterr().err
    assert told.splitlines() == [f"netpipe: {log} gets no more lines: Not a directory"]
    assert watched.figures()["netpipe/batches"] == 4


@pytest.mark.parametrize(("syncs", "exposed"), [(True, 0.2), (False, 0.0)])
def test_a_loader_that_lets_no_thread_look_is_seen(
    watch: Watch, clock: FakeClock, syncs: bool, exposed: float
) -> None:
    """The moments of a wait count, although the thread that samples looks after it."""
    load_s = 0.005

    def loading() -> Iterator[Any]:
        while True:
            clock.sleep(load_s)
            yield {"x": 0}

    watched, done_s = watch(loading()), 0.0
    for _ in islice(watched, 100):
        moments = [clock() - load_s + (each + 0.5) * 0.001 for each in range(25)]
        done_s = max(done_s, clock()) + STEP_S
        watched.on_step_end({"loss": Step(clock, done_s)})
        for at_s in moments[:5]:
            watched.sample(at_s)
        clock.sleep(done_s - clock() if syncs else STEP_S - load_s)
        for at_s in moments[5 : 25 if syncs else 20]:
            watched.sample(at_s)
    assert window_of(watched).exposed_fraction.median == pytest.approx(exposed, abs=0.02)


class _Hostile:
    """A result of a step that raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize(
    "aux", [None, {}, {"loss": 1.0}, "text", _Hostile(), {"loss": _Hostile()}], ids=range(6)
)
def test_whatever_a_step_returns_is_accepted(watch: Watch, aux: Any) -> None:
    """Without an array of JAX, only the host's wait is known."""
    watched = watch(repeat({"x": 0}))
    for _ in range(3):
        next(watched)
        watched.on_step_end(aux)
        watched.sample()
    assert window_of(watched).exposed_fraction is None


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf")])
def test_a_window_and_a_step_have_a_size(value: float) -> None:
    """A window that never ends, or ends at once, is refused before training; so are such FLOPs."""
    with pytest.raises(MisuseError, match=r"window_s must be above 0 seconds.*; found"):
        netpipe.watch(iter(()), window_s=value)
    with pytest.raises(MisuseError, match=r"the FLOPs of a step must be above 0.*; found"):
        netpipe.watch(iter(()), flops_per_step=value)


def test_an_error_of_the_loader_reaches_the_training(watch: Watch) -> None:
    """The watcher neither hides nor changes it."""

    def failing() -> Iterator[int]:
        yield 0
        raise OSError("the disk is gone")

    watched = watch(failing())
    assert next(watched) == 0
    with pytest.raises(OSError, match="the disk is gone"):
        next(watched)


class _Resumable:
    """Batches with a state, which can be gone through again."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> "_Iterator":
        return _Iterator(self)


class _Iterator:
    def __init__(self, batches: _Resumable) -> None:
        self._batches, self._at = batches, batches.at

    def __next__(self) -> int:
        if self._at == 3:
            raise StopIteration
        self._at += 1
        return self._at

    def get_state(self) -> int:
        """Return the position."""
        return self._at


def test_states_and_epochs_are_those_of_the_loader(watch: Watch) -> None:
    """A checkpoint does not notice the watcher, and a second loop begins the loader again."""
    watched = watch(_Resumable())
    assert (list(watched), watched.get_state()) == ([1, 2, 3], 3)
    assert (next(iter(watched)), watched.get_state()) == (1, 1)
    watched.close_window()
    assert watched._latest is not None
    assert watched._latest.epoch == 2
    assert not hasattr(watched, "load_state_dict")


def test_a_loop_goes_on_where_iter_is_called_again(watch: Watch) -> None:
    """`islice`, as in a trainer's prefetching, calls `iter` for each batch."""
    batches: Any = iter(watch(_Resumable()))
    assert [list(islice(batches, 1)) for _ in range(4)] == [[1], [2], [3], []]
    assert batches.get_state() == 3


def test_only_the_watchers_own_thread_counts_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even at the end of an epoch, where the loop's thread closes the window."""
    names: list[str] = []

    def read_memory() -> tuple[int, int]:
        names.append(threading.current_thread().name)
        return 10**8, 10**8

    def batches() -> Iterator[int]:
        yield 1
        until_s = time.monotonic() + 60
        while not watched._memory_bytes and time.monotonic() < until_s:
            time.sleep(0.01)
        yield 2

    monkeypatch.setattr(watcher_module, "read_memory", read_memory)
    watched = Watcher(batches(), window_s=1000)
    assert list(watched) == [1, 2]
    watched.stop()
    assert names == ["netpipe-watch"]


def test_a_real_run_writes_its_windows(tmp_path: Path) -> None:
    """The watcher's own thread closes windows; losses are those of an unwatched run."""
    log = tmp_path / "run.jsonl"
    step: Callable[..., Any] = jax.jit(lambda state, batch: (state + batch.sum(), {"loss": state}))

    def losses(batches: Any) -> list[float]:
        state, found = jnp.float32(0), []
        for batch in batches:
            state, aux = step(state, batch)
            getattr(batches, "on_step_end", lambda _: None)(aux)
            found.append(float(aux["loss"]))
        return found

    def slow() -> Iterator[Any]:
        for number in range(30):
            time.sleep(0.02)
            yield jnp.full(4, number)

    random.seed(1)
    state = random.getstate()
    watched = netpipe.watch(slow(), log, window_s=0.2)
    assert losses(watched) == losses(slow())
    watched.stop()
    assert random.getstate() == state, "the trainer's random numbers are its own"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert sum(line["figures"]["batches"] for line in lines) == 30
    assert all(line["memory_bytes"] > 0 for line in lines)
    assert any(line["figures"]["exposed_fraction"] for line in lines)


def test_a_process_without_room_for_a_thread_trains_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is watched then."""

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert list(netpipe.watch(iter(range(3)))) == [0, 1, 2]
    assert "watching has ended: RuntimeError: can't start new thread" in capsys.readouterr().err


def test_a_failure_of_the_thread_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Training goes on without the watcher."""
    monkeypatch.setattr(watcher_module, "_SAMPLE_S", (0.0, 0.001))
    monkeypatch.setattr(Watcher, "sample", lambda *_: 1 // 0)
    watched = netpipe.watch(iter(range(5)))
    assert next(watched) == 0
    watched._thread.join(10.0)
    watched._given.clear()
    assert list(watched) == [1, 2, 3, 4]
    assert not watched._given
    assert "watching has ended: ZeroDivisionError" in capsys.readouterr().err


def test_a_watcher_that_is_stopped_at_once_passes_every_epoch_on(watch: Watch) -> None:
    """A trainer may switch watching off by a flag."""
    watched = watch([1, 2])
    watched.stop()
    assert [list(watched), list(watched)] == [[1, 2], [1, 2]]


def test_stopping_writes_the_last_window(
    clock: FakeClock, watch: Watch, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """It is written once, and a failure then is one warning; the batches go on."""
    log = tmp_path / "run.jsonl"
    watched = watch(iter(range(9)), log)
    for _ in range(3):
        next(watched)
        clock.sleep(1)
    watched.stop()
    watched.stop()
    (window,) = Log(log).read()
    assert window.figures.batches == 3
    failing = watch(iter(range(9)))
    next(failing)
    monkeypatch.setattr(failing, "report", lambda *_: 1 // 0)
    failing.stop()
    assert capsys.readouterr().err.count("watching has ended: ZeroDivisionError") == 1
    assert [next(watched), next(failing)] == [3, 1]
