"""Which number format a device multiplies matrices in."""

import jax
import jax.numpy as jnp
import numpy as np


def compute_dtype(device: jax.Device) -> np.dtype:
    """Return bfloat16 where the device multiplies it in hardware, else float32.

    NVIDIA has bfloat16 from compute capability 8.0 (Ampere) on. T4 and V100 have only float16,
    whose gradients need loss scaling; they compute in float32, which costs speed but keeps one
    recipe for all devices. CPUs emulate bfloat16, slower than float32.
    """
    if device.platform == "cpu":
        return np.dtype(np.float32)
    capability = str(getattr(device, "compute_capability", ""))
    major = capability.partition(".")[0]
    # TPUs have no compute capability and AMD's is a name such as gfx942: both have bfloat16.
    old = major.isdecimal() and int(major) < 8
    return np.dtype(np.float32 if old else jnp.bfloat16)
