"""How a device's name, as jax gives it, becomes the key of its baselines and its peak."""

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

# FLOP/s, dense, bfloat16; float16 for t4 and v100, which have no bfloat16. Sources: torchtitan
# `tools/utils.py`, levanter `flop_utils.py`, marin. Whole names, so that a card which is not
# listed never borrows the peak of one that is. The first of a family is what its name means alone.
_PEAK_FLOPS: Final = {
    "t4": 65e12,
    "v100-sxm-16gb": 125e12,
    "v100-sxm-32gb": 125e12,
    "v100-pcie-16gb": 112e12,
    "v100-pcie-32gb": 112e12,
    "l4": 121e12,
    "l40s": 362e12,
    "a100-sxm-40gb": 312e12,
    "a100-sxm-80gb": 312e12,
    "a100-pcie-40gb": 312e12,
    "a100-pcie-80gb": 312e12,
    "h100-sxm-80gb": 989e12,
    "h100-pcie": 756e12,
    "h100-nvl": 835e12,
    "h200": 989e12,
    "b200": 2250e12,
    "gb200": 2500e12,
    "mi300x": 1307e12,
}


def device_key(platform: str, kind: str, count: int) -> str:
    """Name the baselines of a device: `<model>-<form>-<memory>-<MIG profile>-x<count>`.

    Args:
        platform: jax's name of the platform: "cpu", "gpu", "tpu".
        kind: jax's `device_kind`, such as "NVIDIA A100-SXM4-80GB"; for a CPU, jax says only "cpu",
            so the processor's own model name is wanted here.
        count: How many such devices are used; for a CPU, how many cores may be used.

    Returns:
        The key in lower case, absent parts left out: "a100-sxm-80gb-x1", "cpu-intel-xeon-2". A
        kind of unknown grammar gives a slug of its own name, never the key of a neighbour.
    """
    if platform == "cpu":
        return f"cpu-{_slug(_CPU_NOISE.sub(' ', kind.lower()))}-{count}"
    return f"{_name(kind)}-x{count}"


def peak_flops(kind: str) -> float | None:
    """Give the dense peak of one device in FLOP/s: bfloat16, or float16 where it has no bfloat16.

    Returns:
        None for a CPU, for an unknown device, and for a MIG slice, which is a fraction of one.
    """
    return _PEAK_FLOPS.get(_name(kind))


def peak_flops_of_name(name: str) -> float | None:
    """Give the dense peak of the accelerator that people call so, in FLOP/s, as `peak_flops`.

    Args:
        name: A key without a count, "h100-pcie", or its beginning up to some hyphen, which means
            the SXM variant unless it says otherwise: "a100".

    Returns:
        None for an unknown name.
    """
    return next(
        (peak for key, peak in _PEAK_FLOPS.items() if f"{key}-".startswith(f"{name}-")), None
    )


def names_with_peak() -> tuple[str, ...]:
    """Give the names of `peak_flops_of_name`, without the memory, which changes no peak."""
    return tuple(dict.fromkeys(re.sub(r"-\d+gb$", "", key) for key in _PEAK_FLOPS))


def matches(key: str, wanted: str) -> bool:
    """Tell whether a device key is the wanted one, or a variant of the wanted family.

    A family is the beginning of a key up to some hyphen: "a100" and "a100-sxm" both match
    "a100-sxm-80gb-x1", "b200" does not match "gb200-x1". A MIG slice is matched only by a wanted
    key that names its profile: a seventh of an A100 is not an A100.

    A wanted count is the least: where eight devices are, a step may use one of them.
    """
    name, count = _split_count(key)
    wanted_name, wanted_count = _split_count(wanted.strip().lower())
    parts, wanted_parts = name.split("-"), wanted_name.split("-")
    variant = parts[len(wanted_parts) :]
    return (
        parts[: len(wanted_parts)] == wanted_parts
        and wanted_count <= count
        and not any(map(_is_mig_profile, variant))
    )


def _split_count(key: str) -> tuple[str, int]:
    """Split "h200-x8" into its name and its count, which is 1 when the key has none."""
    match = _COUNT.fullmatch(key)
    return (match["name"], int(match["count"])) if match else (key, 1)


@dataclass(frozen=True)
class _Parts:
    """What the words of an accelerator's name mean; an absent part is empty."""

    model: str
    form: str = ""
    memory: str = ""
    mig_profile: str = ""

    def joined(self) -> str:
        return "-".join(
            part for part in (self.model, self.form, self.memory, self.mig_profile) if part
        )


def _name(kind: str) -> str:
    """Name one device by its kind, without a count."""
    spelled = _VENDORS.sub("", kind.strip().lower())
    parts = _parts(*re.split(r"[\s-]+", spelled))
    return parts.joined() if parts else _slug(spelled)


def _parts(model: str, *words: str) -> _Parts | None:
    """Sort the words after the model; None when one of them is not understood."""
    form = memory = mig_profile = ""
    for word in words:
        if matched := _FORM.fullmatch(word):
            form = matched[1]
        elif _MEMORY.fullmatch(word):
            memory = word
        elif _is_mig_profile(word):
            mig_profile = word
        elif word == "hbm3" and model == "h100":
            # "NVIDIA H100 80GB HBM3" is the SXM card; the PCIe and NVL cards say what they are.
            form = form or "sxm"
        elif word != "mig":
            return None
    return _Parts(model, form, memory, mig_profile) if model else None


def _is_mig_profile(word: str) -> bool:
    return _MIG_PROFILE.fullmatch(word) is not None


def _slug(text: str) -> str:
    return _NOT_IN_A_SLUG.sub("-", text).strip("-") or "unknown"
