"""Presets, parameter counts, FLOPs and batches by memory."""

import jax
import pytest

from netpipe.errors import InputError
from netpipe.workload.config import PRESETS
from netpipe.workload.step.model import init_parameters
from netpipe.workload.step.presets import (
    PRESET_BY_NAME,
    Architecture,
    batch_size_for_memory,
    flops_per_step,
)

GB = 10**9


def test_every_configurable_preset_exists() -> None:
    """The names that the configuration accepts are those of the presets."""
    assert tuple(PRESET_BY_NAME) == PRESETS


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


@pytest.mark.parametrize(
    ("card", "memory_bytes", "batch_size"),
    [
        ("T4", 16 * GB, 32),
        ("L4", 24 * GB, 32),
        ("A100 40 GB", 40 * GB, 64),
        ("A100 80 GB", 80 * GB, 128),
        ("H200", 141 * GB, 128),
        ("B200", 180 * GB, 128),
    ],
)
def test_batch_size_follows_the_memory(card: str, memory_bytes: int, batch_size: int) -> None:
    """Each card gets the largest power of two that fits, 128 at most."""
    assert batch_size_for_memory(memory_bytes) == batch_size, card


def test_too_little_memory_is_bad_input() -> None:
    """A card that holds no sequence is refused with the memory it would need."""
    with pytest.raises(InputError, match=r"memory.* 2\.3 GiB.* 1\.9"):
        batch_size_for_memory(2 * GB)
