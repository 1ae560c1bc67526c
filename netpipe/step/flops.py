"""The number of parameters of a model, and the FLOPs of its training step."""

from netpipe.step.presets import PRESET_BY_NAME, Architecture


def parameter_count(architecture: Architecture) -> int:
    """Count the trained parameters."""
    norms = (2 * architecture.layers + 1) * architecture.width
    embedding = architecture.vocabulary * architecture.width
    return _matmul_parameters(architecture) + norms + embedding


def flops_per_step(preset: str, batch_size: int, sequence_length: int) -> int:
    """Count the FLOPs of one forward and backward pass of a preset.

    See `model_flops`. Rematerialisation and the optimizer are not counted, so that the figure
    divided by time and peak is the model FLOPs utilisation (MFU).
    """
    return model_flops(PRESET_BY_NAME[preset].architecture, batch_size, sequence_length)


def model_flops(architecture: Architecture, batch_size: int, sequence_length: int) -> int:
    """Count the FLOPs of one forward and backward pass: (6 N + 12 L H Q T) per token.

    N counts the parameters that are multiplied with every token: with the output projection,
    without norms and embedding. L is the layers, H the query heads, Q their width and T the
    sequence length: PaLM (arXiv 2204.02311), appendix B. As there, the causal mask saves nothing.
    """
    weights = 6 * _matmul_parameters(architecture)
    attention = 12 * architecture.layers * architecture.width * sequence_length
    return batch_size * sequence_length * (weights + attention)


def _matmul_parameters(architecture: Architecture) -> int:
    query_and_output = 2 * architecture.width * architecture.width
    key_and_value = 2 * architecture.width * architecture.kv_heads * architecture.head_width
    gated_mlp = 3 * architecture.width * architecture.mlp_width
    unembedding = architecture.width * architecture.vocabulary
    return architecture.layers * (query_and_output + key_and_value + gated_mlp) + unembedding
