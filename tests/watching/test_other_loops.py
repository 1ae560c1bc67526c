"""Watched loops that are not the user's own, and the loops of docs/training.md."""

import re
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grain
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import netpipe
from netpipe.watching.logs import Log
from netpipe.watching.processes import merge
from netpipe.watching.window import Window
from tests.fakes import FakeClock
from tests.watching.conftest import Step, Watch

PAGE = Path(__file__).parents[2] / "docs" / "training.md"


def _read_whole(folder: Path) -> Window:
    return merge([*Log(folder / "run.jsonl").read()])


def test_a_hook_takes_the_loss_alone(watch: Watch, clock: FakeClock) -> None:
    """Trainers pass batches to their hooks too, whose arrays say nothing about the step."""
    loss, batch = Step(clock, 1.0), Step(clock, 0.0)
    watched = watch(repeat(batch))
    seen = []
    for passed, named in (
        ((loss,), {}),
        ((7, {"loss": loss}), {}),
        (("trainer", {"loss": loss}, batch, 7), {}),
        (("state",), {"loss": loss, "batch": batch}),
        ((batch, {"accuracy": batch}), {}),
        (("arguments", "state", "control"), {"model": batch}),
        ((), {}),
    ):
        watched.on_step_end(*passed, **named)
        seen.append(watched._step)
    assert seen == [loss] * 4 + [None] * 3


class _Trainer:
    """A trainer with a loop of its own, which asks how many batches there are, and calls hooks."""

    def __init__(self, hooks: Any, step: Callable[..., Any], max_steps: int = 100) -> None:
        self._hooks, self._step, self._max_steps = hooks, step, max_steps

    def fit(self, loader: Any) -> int:
        """Train for two epochs or the given steps; return the number of steps."""
        steps = range(min(self._max_steps, 2 * len(loader))) if loader else range(0)
        state, batches = jnp.float32(0), iter(loader)
        for number in steps:
            if number == len(loader):
                batches = iter(loader)
            state, logs = self._step(state, next(batches))
            self._hooks.on_step_end(self, number, logs, state=state)
        self._hooks.on_train_end(self, logs=None)
        return len(steps)


def test_the_watcher_is_a_callback_of_a_trainer(tmp_path: Path) -> None:
    """A loop of somebody else gets the watcher as its loader, and its methods as hooks."""
    step: Callable[..., Any] = jax.jit(lambda state, batch: (state + batch.sum(), {"loss": state}))
    watched = netpipe.watch([jnp.ones(4)] * 30, tmp_path / "run.jsonl", window_s=60.0)
    assert _Trainer(watched, step, 45).fit(watched) == 45
    window = _read_whole(tmp_path)
    assert (window.figures.batches, window.epoch) == (45, 2)
    assert window.figures.synced_fraction is not None
    with pytest.raises(TypeError):
        len(netpipe.watch(iter(())))


def _read_block(part: str) -> str:
    """Return the block of Python on the page that contains a text."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (block,) = (each for each in blocks if part in each)
    return str(block)


def _count_changes(block: str) -> int:
    return sum(line.endswith(("# new", "# changed")) for line in block.splitlines())


@jax.jit
def _train_step(weights: jax.Array, batch: jax.Array) -> tuple[jax.Array, jax.Array]:
    return weights + batch.mean(), batch.sum()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for `run.jsonl`, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_loop_of_jax_with_grain(here: Path) -> None:
    """Three lines are new or changed, and the watcher can tell whether the device is idle."""
    dataset = grain.MapDataset.range(96).map(np.float32).batch(4).to_iter_dataset()
    given = {"netpipe": netpipe, "dataset": dataset, "train_step": _train_step}
    given["weights"] = jnp.float32(0)
    block = _read_block("train_step(")
    assert _count_changes(block) == 3
    exec(block, given)
    window = _read_whole(here)
    assert window.figures.batches == 24
    assert window.figures.synced_fraction is not None
    assert float(given["weights"]) == pytest.approx(sum(range(96)) / 4)


def test_the_loop_of_torch(here: Path) -> None:
    """Two lines are new or changed; the watcher cannot ask whether the device is idle."""
    calls: list[str] = []
    tensor = SimpleNamespace(backward=lambda: calls.append("backward"))
    optimizer = SimpleNamespace(
        zero_grad=lambda: calls.append("zero"), step=lambda: calls.append("step")
    )
    block = _read_block("loss.backward()")
    assert _count_changes(block) == 2
    exec(
        block,
        {
            "netpipe": netpipe, "loader": [(np.ones((2, 3)), np.ones(2))] * 40,
            "model": lambda inputs: inputs, "loss_function": lambda *_: tensor,
            "optimizer": optimizer,
        },
    )  # fmt: skip
    window = _read_whole(here)
    assert calls == ["zero", "backward", "step"] * 40
    assert window.figures.batches == 40
    assert window.figures.exposed_fraction is None


def test_the_hooks_of_keras(here: Path) -> None:
    """Keras takes a generator, and gives its hooks a number of the step and numbers of its logs."""

    def fit(batches: Iterator[Any], callbacks: list[SimpleNamespace]) -> None:
        (hooks,) = callbacks
        for number, batch in enumerate(islice(batches, 20)):
            hooks.on_train_batch_end(number, {"loss": float(batch.sum())})
        hooks.on_train_end({"loss": 0.0})

    exec(
        _read_block("keras.callbacks"),
        {
            "netpipe": netpipe, "jnp": jnp, "dataset": [np.ones(4)] * 30,
            "keras": SimpleNamespace(callbacks=SimpleNamespace(LambdaCallback=SimpleNamespace)),
            "model": SimpleNamespace(fit=fit),
        },
    )  # fmt: skip
    window = _read_whole(here)
    assert window.figures.batches == 20
    assert window.figures.synced_fraction is not None
