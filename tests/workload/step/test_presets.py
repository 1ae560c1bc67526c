"""Presets, parameter counts and FLOPs."""

import jax
import pytest

from netpipe.workload.step.model import init_parameters
from netpipe.workload.step.presets import PRESET_BY_NAME, Architecture, flops_per_step


@pytest.mark.parametrize(("name", "count"), [("tiny", 76_560), ("latency-95m", 97_033_600)])
def test_parameter_count_is_that_of_the_model(name: str, count: int) -> None:
    """The model's arrays have as many elements as its documentation states."""
    architecture = PRESET_BY_NAME[name].architecture
    shapes = jax.eval_shape(lambda: init_parameters(architecture, jax.random.key(0)))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == count


def test_flops_agree_with_a_count_by_hand(small: Architecture) -> None:
    """Every product of a small model, counted one by one, gives the formula's FLOPs."""
    query, key_value, output, mlp = 8 * 8, 2 * 8 * 4, 8 * 8, 3 * 8 * 12
    head = 11 * 8
    scores_and_mix = 2 * (2 * 4 * 16)  # two products, two heads of 4, over 16 keys
    multiply_adds = 2 * (query + key_value + output + mlp + scores_and_mix) + head
    forward = 2 * multiply_adds * (2 * 16)
    assert flops_per_step(small, batch_size=2, sequence_length=16) == 3 * forward
