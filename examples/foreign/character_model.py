"""The step of this project: it learns to predict the next character from those before it."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

CHARACTERS = 128
CONTEXT = 8  # context of a prediction, in characters
EMBEDDING = 32
HIDDEN = 128
LEARNING_RATE = 0.1

Weights = dict[str, jax.Array]


def initial_weights() -> Weights:
    """Draw the weights of one embedding and one hidden layer, float32."""
    embed, hide, name = jax.random.split(jax.random.key(0), 3)
    return {
        "embedding": 0.1 * jax.random.normal(embed, (CHARACTERS, EMBEDDING)),
        "hidden": 0.06 * jax.random.normal(hide, (CONTEXT * EMBEDDING, HIDDEN)),
        "output": 0.06 * jax.random.normal(name, (HIDDEN, CHARACTERS)),
    }


def loss_of(weights: Weights, windows: jax.Array) -> jax.Array:
    """Return the mean negative log-likelihood of every next character: float32 ().

    Args:
        weights: The result of `initial_weights`.
        windows: Characters, uint8 (batch, window).
    """
    seen = weights["embedding"][windows[:, :-1]]
    shifted = [jnp.pad(seen, ((0, 0), (back, 0), (0, 0))) for back in range(CONTEXT)]
    context = jnp.concatenate([one[:, : seen.shape[1]] for one in shifted], axis=-1)
    logits = jnp.tanh(context @ weights["hidden"]) @ weights["output"]
    likelihoods = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(likelihoods, windows[:, 1:, None].astype(int), axis=-1).mean()


@partial(jax.jit, donate_argnums=0)
def train_step(weights: Weights, windows: jax.Array) -> tuple[Weights, dict[str, Any]]:
    """Take one step of stochastic gradient descent; the given weights are donated."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, windows)
    weights = jax.tree.map(lambda one, slope: one - LEARNING_RATE * slope, weights, gradients)
    return weights, {"loss": loss}


def state_and_step() -> tuple[Weights, Any]:
    """Return the initial weights, and the function of one step."""
    return initial_weights(), train_step
