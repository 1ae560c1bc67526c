"""The models that can be trained, and their FLOPs.

`tiny` is for CPUs and has 76,560 parameters. `latency-95m` is for GPUs and has 97,033,600.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Architecture:
    """The widths of a decoder-only transformer with a gated MLP.

    The query heads share one head of keys and values (multi-query, arXiv 1911.02150). Rotary
    positions need an even head width.
    """

    layers: int
    width: int
    heads: int
    mlp_width: int
    vocabulary: int = 267

    @property
    def head_width(self) -> int:
        """The width of one head."""
        return self.width // self.heads


@dataclass(frozen=True)
class Preset:
    """A model and the batch it is timed with."""

    architecture: Architecture
    sequence_length: int
    batch_size: int


PRESET_BY_NAME = {
    "tiny": Preset(
        Architecture(layers=2, width=48, heads=2, mlp_width=128),
        sequence_length=256,
        batch_size=8,
    ),
    "latency-95m": Preset(
        Architecture(layers=20, width=640, heads=10, mlp_width=2048),
        sequence_length=1024,
        # 0.12 s a step and 4.3 GB on an H100.
        batch_size=16,
    ),
}


def flops_per_step(architecture: Architecture, batch_size: int, sequence_length: int) -> int:
    """Count the FLOPs of one forward and backward pass: (6 N + 12 L H Q T) per token.

    N counts the parameters that are multiplied with every token, including the output projection
    but not norms and embedding. L layers have H query heads of width Q; T is the sequence length:
    PaLM (arXiv 2204.02311), appendix B. As there, the causal mask does not reduce the count.
    Rematerialisation and the optimizer are not counted, so that the figure divided by time and
    peak is the model FLOPs utilisation (MFU).
    """
    width = architecture.width
    query_and_output = 2 * width * width
    key_and_value = 2 * width * architecture.head_width
    gated_mlp = 3 * width * architecture.mlp_width
    unembedding = width * architecture.vocabulary
    layers = architecture.layers
    weights = layers * (query_and_output + key_and_value + gated_mlp) + unembedding
    attention = layers * width * sequence_length
    return batch_size * sequence_length * (6 * weights + 12 * attention)
