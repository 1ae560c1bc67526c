"""The keys and peaks of every device name that jax is known to report."""

import pytest

from netpipe.device.accelerators import (
    ACCELERATORS,
    Accelerator,
    device_key,
    matches,
    peak_flops,
)
from tests.test_gpu_models import FAMILIES


@pytest.mark.parametrize("model", ACCELERATORS, ids=lambda model: model.key)
def test_a_listed_device_has_its_key_and_its_peak(model: Accelerator) -> None:
    """Every device_kind that jax is known to report gets its own key and its dense peak."""
    assert device_key("gpu", model.kind, 1) == f"{model.key}-x1"
    assert peak_flops(model.kind) == model.peak_flops


def test_no_two_devices_share_a_key() -> None:
    """Form and memory distinguish devices of the same model."""
    assert len({model.key for model in ACCELERATORS}) == len(ACCELERATORS)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_its_own_devices(family: str) -> None:
    """A tox environment accepts the listed devices of its name only: B200 is not GB200."""
    taken = {model.key for model in ACCELERATORS if matches(f"{model.key}-x1", family)}
    assert taken == {model.key for model in ACCELERATORS if model.key.split("-")[0] == family}


@pytest.mark.parametrize("kind", [model.kind for model in ACCELERATORS])
def test_a_name_with_more_in_it_is_another_device(kind: str) -> None:
    """A listed name with an extra word or letter has no peak, and another key."""
    listed = device_key("gpu", kind, 1)
    vendor, _, model = kind.partition(" ")
    for other in (f"{kind} Max-Q", f"{kind}X", f"{vendor} Q{model}", f"{vendor} DGX {model}"):
        assert peak_flops(other) is None
        assert device_key("gpu", other, 1) != listed


def test_a_cpu_has_no_peak() -> None:
    """A CPU has no peak, because the step shares its cores with the loader."""
    assert peak_flops("cpu") is None


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-sxm-40gb-1g.5gb-x1"),
        ("NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb", "a100-sxm-80gb-1c.3g.40gb-x1"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "h100-sxm-80gb-1g.10gb+me-x1"),
        ("NVIDIA H100 NVL MIG 1g.12gb", "h100-nvl-1g.12gb-x1"),
        ("NVIDIA H200 MIG 7g.141gb", "h200-7g.141gb-x1"),
        ("NVIDIA B200 MIG 1g.23gb", "b200-1g.23gb-x1"),
    ],
)
def test_a_mig_slice_has_a_key_of_its_own_and_no_peak(kind: str, key: str) -> None:
    """A MIG slice has its profile in the key, after the memory, and no peak."""
    assert device_key("gpu", kind, 1) == key
    assert peak_flops(kind) is None


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090-x1"),
        ("NVIDIA A100X", "a100x-x1"),
        ("NVIDIA A10", "a10-x1"),
        ("NVIDIA A10G", "a10g-x1"),
        ("NVIDIA A800-SXM4-80GB", "a800-sxm-80gb-x1"),
        ("NVIDIA L40", "l40-x1"),
        ("NVIDIA H20", "h20-x1"),
        ("NVIDIA H800", "h800-x1"),
        ("NVIDIA GB300", "gb300-x1"),
        ("Tesla V100S-PCIE-32GB", "v100s-pcie-32gb-x1"),
        ("NVIDIA T4G", "t4g-x1"),
        ("AMD Instinct MI300A", "mi300a-x1"),
        ("NVIDIA A100-SXM-64GB", "a100-sxm-64gb-x1"),
        ("NVIDIA H200 NVL", "h200-nvl-x1"),
        ("NVIDIA GH200 480GB", "gh200-480gb-x1"),
        ("NVIDIA B300 SXM6 AC", "b300-sxm6-ac-x1"),
        ("TPU v5 lite", "tpu-v5-lite-x1"),
        ("NVIDIA", "nvidia-x1"),
        ("cuda:0", "cuda-0-x1"),
        ("/device:GPU:0", "device-gpu-0-x1"),
        ("my_gpu", "my-gpu-x1"),
        ("", "unknown-x1"),
    ],
)
def test_an_unknown_device_has_its_own_key_and_no_peak(kind: str, key: str) -> None:
    """An unlisted device gets a key from its own name, and no peak."""
    assert device_key("gpu", kind, 1) == key
    assert peak_flops(kind) is None


def test_the_key_counts_the_devices() -> None:
    """Eight devices of one kind have another key than one of them."""
    assert device_key("gpu", "NVIDIA H200", 8) == "h200-x8"


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("Intel(R) Xeon(R) Processor", "cpu-intel-xeon-2"),
        ("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", "cpu-intel-xeon-platinum-8481c-2"),
        ("Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz", "cpu-intel-core-i7-8700k-2"),
        ("AMD EPYC 7763 64-Core Processor", "cpu-amd-epyc-7763-2"),
        ("aarch64 0x41 0xd4f", "cpu-aarch64-0x41-0xd4f-2"),
    ],
)
def test_a_cpu_is_keyed_by_its_model_and_its_usable_cores(model: str, key: str) -> None:
    """A CPU's key leaves out trade marks, clock rates and words that every CPU has."""
    assert device_key("cpu", model, 2) == key


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("a100-sxm-80gb-x1", "a100"),
        ("a100-sxm-80gb-x1", "A100-SXM"),
        ("a100-sxm-80gb-x1", "a100-sxm-80gb-x1"),
        ("a100-sxm-40gb-1g.5gb-x1", "a100-sxm-40gb-1g.5gb"),
        ("cpu-intel-xeon-2", "cpu"),
        ("a100-sxm-80gb-x8", "a100"),
        ("a100-sxm-80gb-x8", "a100-sxm-80gb-x1"),
        ("a100-sxm-80gb-x8", "a100-x8"),
    ],
)
def test_a_family_matches_its_variants(key: str, wanted: str) -> None:
    """A key matches itself, each family that it begins with, and fewer of the same device."""
    assert matches(key, wanted)


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("gb200-x1", "b200"),
        ("b200-x1", "gb200"),
        ("l40s-x1", "l4"),
        ("a100-sxm-80gb-x1", "a100-sxm-80gb-x8"),
        ("a100-sxm-40gb-1g.5gb-x1", "a100-x1"),
        ("a100-sxm-40gb-1g.5gb-x1", "a100"),
        ("cpu-intel-xeon-8", "cpu-intel-xeon-2"),
        ("h200-x1", "cpu"),
        ("h200-x1", "h200-x1-more"),
        ("h200-x1", ""),
    ],
)
def test_a_family_does_not_match_its_neighbours(key: str, wanted: str) -> None:
    """A similar name, fewer devices than wanted, or a slice does not match."""
    assert not matches(key, wanted)
