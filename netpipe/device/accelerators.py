"""The table of accelerators, and functions for the key and the peak of a device."""

import re
from dataclasses import dataclass
from typing import Final

_VENDORS = re.compile(r"^((nvidia|tesla|amd|instinct) )+")
_FORM = re.compile(r"(sxm|pcie|nvl)\d*")
_MEMORY = re.compile(r"\d+gb")
_MIG_PROFILE = re.compile(r"(\d+c\.)?\d+g\.\d+gb(\+\w+)*")
_CPU_NOISE = re.compile(r"\((r|tm|c)\)|@.*$|\b(cpu|processor|\d+-cores?)\b")
_COUNT = re.compile(r"(?P<name>.+)-x(?P<count>\d+)")
_NOT_IN_A_SLUG = re.compile(r"[^a-z0-9.+]+")


@dataclass(frozen=True)
class Accelerator:
    """One row of the table below, for one model.

    Attributes:
        key: Its device key without a count.
        kind: jax's `device_kind`.
        peak_flops: Dense FLOP/s in bfloat16, or in float16 for a model that has no bfloat16.
    """

    key: str
    kind: str
    peak_flops: float


# Whole names are matched, so an unlisted card never gets the peak of a listed one. The name of a
# family stands for its first row. Sources of the peaks: torchtitan `tools/utils.py`, levanter
# `flop_utils.py`, marin. tests/test_gpu_models.py lists the other files that name these models.
ACCELERATORS: Final = (
    Accelerator("t4", "Tesla T4", 65e12),
    Accelerator("v100-sxm-16gb", "Tesla V100-SXM2-16GB", 125e12),
    Accelerator("v100-sxm-32gb", "Tesla V100-SXM2-32GB", 125e12),
    Accelerator("v100-pcie-16gb", "Tesla V100-PCIE-16GB", 112e12),
    Accelerator("v100-pcie-32gb", "Tesla V100-PCIE-32GB", 112e12),
    Accelerator("l4", "NVIDIA L4", 121e12),
    Accelerator("l40s", "NVIDIA L40S", 362e12),
    Accelerator("a100-sxm-40gb", "NVIDIA A100-SXM4-40GB", 312e12),
    Accelerator("a100-sxm-80gb", "NVIDIA A100-SXM4-80GB", 312e12),
    Accelerator("a100-pcie-40gb", "NVIDIA A100-PCIE-40GB", 312e12),
    Accelerator("a100-pcie-80gb", "NVIDIA A100 80GB PCIe", 312e12),
    Accelerator("h100-sxm-80gb", "NVIDIA H100 80GB HBM3", 989e12),
    Accelerator("h100-pcie", "NVIDIA H100 PCIe", 756e12),
    Accelerator("h100-nvl", "NVIDIA H100 NVL", 835e12),
    Accelerator("h200", "NVIDIA H200", 989e12),
    Accelerator("b200", "NVIDIA B200", 2250e12),
    Accelerator("gb200", "NVIDIA GB200", 2500e12),
    Accelerator("mi300x", "AMD Instinct MI300X", 1307e12),
)


def device_key(platform: str, kind: str, count: int) -> str:
    """Return the key of a device: `<model>-<form>-<memory>-<MIG profile>-x<count>`.

    The key is in lower case, without the parts that do not apply: "a100-sxm-80gb-x1",
    "cpu-intel-xeon-2". A name that cannot be parsed becomes a slug, never the key of a similar
    device.

    Args:
        platform: jax's name of the platform: "cpu", "gpu", "tpu".
        kind: jax's `device_kind`; for a CPU its model name, because jax calls every CPU "cpu".
        count: The number of devices in use; for a CPU, the number of usable cores.
    """
    if platform == "cpu":
        return f"cpu-{_slug(_CPU_NOISE.sub(' ', kind.lower()))}-{count}"
    return f"{_name(kind)}-x{count}"


def peak_flops(kind: str) -> float | None:
    """Return the dense peak of one device in FLOP/s; None if unknown, as for a CPU or MIG slice."""
    key = _name(kind)
    return next((model.peak_flops for model in ACCELERATORS if model.key == key), None)


def peak_flops_of_name(name: str) -> float | None:
    """Return the dense peak in FLOP/s of an accelerator that a user names; None if unknown.

    The name is a key without a count, "h100-pcie", or its beginning up to a hyphen, "a100". A
    beginning stands for the SXM variant unless it names another form.
    """
    models = (model for model in ACCELERATORS if f"{model.key}-".startswith(f"{name}-"))
    return next((model.peak_flops for model in models), None)


def names_with_peak() -> tuple[str, ...]:
    """Return the names for `peak_flops_of_name`, without memory sizes, which do not matter."""
    return tuple(dict.fromkeys(re.sub(r"-\d+gb$", "", model.key) for model in ACCELERATORS))


def matches(key: str, wanted: str) -> bool:
    """Return whether a device key is the wanted key, or a variant of the wanted family.

    A family is the beginning of a key up to a hyphen: "a100" and "a100-sxm" both match
    "a100-sxm-80gb-x1", "b200" does not match "gb200-x1". A MIG slice matches only if the wanted key
    names its profile: a seventh of an A100 is not an A100.

    A wanted count is a minimum: a step may use one of eight devices.
    """
    name, count = _split_count(key)
    wanted_name, wanted_count = _split_count(wanted.strip().lower())
    parts, wanted_parts = name.split("-"), wanted_name.split("-")
    return (
        parts[: len(wanted_parts)] == wanted_parts
        and wanted_count <= count
        and not any(map(_MIG_PROFILE.fullmatch, parts[len(wanted_parts) :]))
    )


def _split_count(key: str) -> tuple[str, int]:
    match = _COUNT.fullmatch(key)
    return (match["name"], int(match["count"])) if match else (key, 1)


def _name(kind: str) -> str:
    """Return the key of one device, without a count."""
    spelled = _VENDORS.sub("", kind.strip().lower())
    model, *words = re.split(r"[\s-]+", spelled)
    return _slug(_join_parts(model, words) or spelled)


def _join_parts(model: str, words: list[str]) -> str:
    """Join the words of a name in the key's order; "" if a word is unknown."""
    form = memory = mig_profile = ""
    for word in words:
        if matched := _FORM.fullmatch(word):
            form = matched[1]
        elif _MEMORY.fullmatch(word):
            memory = word
        elif _MIG_PROFILE.fullmatch(word):
            mig_profile = word
        elif word == "hbm3" and model == "h100":
            # "NVIDIA H100 80GB HBM3" is the SXM card; PCIe and NVL cards are named as such.
            form = form or "sxm"
        elif word != "mig":
            return ""
    return "-".join(part for part in (model, form, memory, mig_profile) if part) if model else ""


def _slug(text: str) -> str:
    return _NOT_IN_A_SLUG.sub("-", text).strip("-") or "unknown"
