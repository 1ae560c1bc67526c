"""A decoder-only transformer: RMSNorm before each block, rotary positions, a gated MLP.

Shapes are named B batch, S sequence, T = B S tokens, D width, N heads of H each, F MLP width, V
vocabulary, L layers. The residual stream is (T, D), since XLA on CPU takes three times as long for
a product with a batch axis.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from netpipe.workload.step.presets import Architecture

_ROTARY_BASE = 10_000.0
_NORM_EPSILON = 1e-6


class Layer(NamedTuple):
    """The parameters of the blocks, float32; all layers stacked along the first axis."""

    attention_norm: Array  # (L, D)
    query: Array  # (L, D, N H)
    key: Array  # (L, D, H)
    value: Array  # (L, D, H)
    output: Array  # (L, N H, D)
    mlp_norm: Array  # (L, D)
    gate: Array  # (L, D, F)
    up: Array  # (L, D, F)
    down: Array  # (L, F, D)


class Parameters(NamedTuple):
    """All parameters, float32."""

    embedding: Array  # (V, D)
    layers: Layer
    final_norm: Array  # (D,)
    unembedding: Array  # (D, V)


class _Context(NamedTuple):
    """The mask and the rotary angles of a batch, used by every block."""

    visible: Array  # bool (B, S, S): whether a query (middle axis) sees a key (last axis)
    cosine: Array  # float32 (B, S, H / 2)
    sine: Array  # float32 (B, S, H / 2)


def init_parameters(architecture: Architecture, key: Array) -> Parameters:
    """Draw embeddings with standard deviation 1, and weights with 1 / sqrt(fan-in).

    Projections into the residual stream are divided by sqrt(2 L), as in GPT-2.
    """
    layers, width, mlp_width = architecture.layers, architecture.width, architecture.mlp_width
    kv_width = architecture.head_width
    keys = iter(jax.random.split(key, 9))

    def normal(*shape: int, fan_in: int) -> Array:
        return jax.random.normal(next(keys), shape, jnp.float32) / math.sqrt(fan_in)

    return Parameters(
        embedding=normal(architecture.vocabulary, width, fan_in=1),
        layers=Layer(
            attention_norm=jnp.ones((layers, width)),
            query=normal(layers, width, width, fan_in=width),
            key=normal(layers, width, kv_width, fan_in=width),
            value=normal(layers, width, kv_width, fan_in=width),
            output=normal(layers, width, width, fan_in=width * 2 * layers),
            mlp_norm=jnp.ones((layers, width)),
            gate=normal(layers, width, mlp_width, fan_in=width),
            up=normal(layers, width, mlp_width, fan_in=width),
            down=normal(layers, mlp_width, width, fan_in=mlp_width * 2 * layers),
        ),
        final_norm=jnp.ones(width),
        unembedding=normal(width, architecture.vocabulary, fan_in=width),
    )


def forward(
    architecture: Architecture,
    parameters: Parameters,
    tokens: Array,
    segments: Array,
    positions: Array,
    dtype: np.dtype,
) -> Array:
    """Predict the next token at every position: logits, float32 (B, S, V).

    Tokens, segments and positions are int32 (B, S). A token attends to itself and earlier tokens
    of its segment; padding, segment 0, attends to padding, so that no softmax is empty. Positions
    count from the start of each segment. `dtype` is that of the matrix products; norms, softmax and
    logits are float32.
    """
    length = tokens.shape[1]
    causal = jnp.tril(jnp.ones((length, length), bool))
    visible = causal & (segments[:, :, None] == segments[:, None, :])
    # Rotary positions (arXiv 2104.09864).
    exponents = jnp.arange(0, architecture.head_width, 2, dtype=jnp.float32)
    frequencies = _ROTARY_BASE ** -(exponents / architecture.head_width)
    angles = positions[..., None].astype(jnp.float32) * frequencies
    context = _Context(visible, jnp.cos(angles), jnp.sin(angles))

    def block(x: Array, layer: Layer) -> tuple[Array, None]:
        layer = jax.tree.map(lambda leaf: leaf.astype(dtype), layer)
        x = x + _attention(_rms_norm(x, layer.attention_norm), layer, context)
        normed = _rms_norm(x, layer.mlp_norm)
        # Gated MLP, SwiGLU (arXiv 2002.05202).
        x = x + (jax.nn.silu(normed @ layer.gate) * (normed @ layer.up)) @ layer.down
        return x, None

    x = parameters.embedding.astype(dtype)[tokens.reshape(-1)]
    # The backward pass recomputes each block. Keeping the attention weights instead would take
    # 20 times 5 GiB for a batch of 128, and is slower even on a CPU.
    x, _ = jax.lax.scan(jax.checkpoint(block), x, parameters.layers)
    x = _rms_norm(x, parameters.final_norm)
    unembedding = parameters.unembedding.astype(dtype)
    logits = jnp.dot(x, unembedding, preferred_element_type=jnp.float32)
    return logits.reshape(*tokens.shape, -1)


def _rms_norm(x: Array, scale: Array) -> Array:
    """Root mean square normalisation (arXiv 1910.07467), computed in float32."""
    wide = x.astype(jnp.float32)
    mean_square = jnp.mean(wide * wide, axis=-1, keepdims=True)
    return (wide * jax.lax.rsqrt(mean_square + _NORM_EPSILON) * scale).astype(x.dtype)


def _rotate(heads: Array, context: _Context) -> Array:
    """Rotate the two halves of each head, (B, S, any, H), as coordinates in a plane."""
    cosine, sine = (part[:, :, None].astype(heads.dtype) for part in context[1:])
    first, second = jnp.split(heads, 2, axis=-1)
    return jnp.concatenate(
        [first * cosine - second * sine, second * cosine + first * sine], axis=-1
    )


def _attention(x: Array, layer: Layer, context: _Context) -> Array:
    """Causal attention within segments, for `x` (T, D); query heads share a key-value head."""
    batch, length, half = context.cosine.shape
    heads = (batch, length, -1, 2 * half)
    mixed = jax.nn.dot_product_attention(
        _rotate((x @ layer.query).reshape(heads), context),
        _rotate((x @ layer.key).reshape(heads), context),
        (x @ layer.value).reshape(heads),
        mask=context.visible[:, None],
    )
    return mixed.reshape(x.shape) @ layer.output
