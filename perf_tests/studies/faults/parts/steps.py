"""Real training steps, which compile, donate and share cores as an emulated step cannot."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from perf_tests.studies.faults.parts.batches import Array, Batch
from perf_tests.studies.faults.parts.loops import Aux, Step

WIDTH = 384


def _train(state: Any, tokens: jax.Array, products: int) -> tuple[Any, Aux]:
    shift = jnp.mean(tokens.astype(jnp.float32)) * 1e-6

    def product(_: int, x: jax.Array) -> jax.Array:
        return jnp.tanh(x @ state["weights"])

    activations = jax.lax.fori_loop(0, products, product, state["weights"] + shift)
    loss = jnp.mean(activations**2)
    return jax.tree.map(lambda leaf: leaf * (1 - 1e-6 * loss), state), {"loss": loss}


def _state(spare: int = 0) -> Any:
    keys = jax.random.split(jax.random.key(0), 2)
    weights = jax.random.normal(keys[0], (WIDTH, WIDTH)) / WIDTH**0.5
    return {"weights": weights, "moments": jnp.zeros((spare, WIDTH))}


def donating(products: int) -> tuple[Any, Step]:
    """Return a state, and a step of matrix products that donates it."""
    return _state(), _jitted(jax.jit(partial(_train, products=products), donate_argnums=0))


def keeping(products: int, spare: int) -> tuple[Any, Step]:
    """Return the same without donation, with `spare` more rows in the state."""
    return _state(spare), _jitted(jax.jit(partial(_train, products=products)))


def compiling_anew(products: int) -> tuple[Any, Step]:
    """Return a step that jits a new function at each call."""

    def step(state: Any, batch: Batch) -> tuple[Any, Aux]:
        # jit's cache does not know a function made here.
        return _jitted(jax.jit(lambda state, tokens: _train(state, tokens, products)))(state, batch)

    return _state(), step


def _jitted(train: Callable[[Any, Array], tuple[Any, Aux]]) -> Step:
    def step(state: Any, batch: Batch) -> tuple[Any, Aux]:
        return train(state, batch["tokens"])

    return step
