"""Names of emulated accelerators: their meaning, and the time of a step on each."""

import re
from math import inf

import pytest

from netpipe.device.emulated_names import (
    EmulatedAccelerator,
    Flops,
    parse_accelerator,
    parse_accelerators,
)
from netpipe.errors import MisuseError


def emulated(text: str) -> EmulatedAccelerator:
    """Parse a name other than `auto`."""
    found = parse_accelerator(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "step_s", "key"),
    [
        ("emulated:36ms", 0.036, "emulated-36ms"),
        ("emulated:1.5ms", 0.0015, "emulated-1.5ms"),
        ("emulated:2s", 2.0, "emulated-2s"),
        ("emulated:500us", 0.0005, "emulated-500us"),
        ("emulated:36ms@2GB/s", 0.036, "emulated-36ms-2gb-s"),
    ],
)
def test_an_accelerator_is_named_by_its_step_time(text: str, step_s: float, key: str) -> None:
    """The name holds a number and a unit, and gives the key; the step needs no FLOPs."""
    found = emulated(text)
    assert (found.name, found.key, found.count) == (text, key, 1)
    found_s, described = found.derive_step_s(lambda: pytest.fail("they were counted"), 0.4)
    assert found_s == pytest.approx(step_s)
    assert described == text


@pytest.mark.parametrize(
    ("name", "peak_flops"),
    [
        ("t4", 65e12),
        ("v100", 125e12),
        ("v100-pcie", 112e12),
        ("l4", 121e12),
        ("l40s", 362e12),
        ("a100", 312e12),
        ("a100-sxm", 312e12),
        ("a100-sxm-40gb", 312e12),
        ("a100-pcie", 312e12),
        ("h100", 989e12),
        ("h100-sxm-80gb", 989e12),
        ("h100-pcie", 756e12),
        ("h100-nvl", 835e12),
        ("h200", 989e12),
        ("b200", 2250e12),
        ("gb200", 2500e12),
        ("mi300x", 1307e12),
    ],
)
def test_a_name_stands_for_a_peak(name: str, peak_flops: float) -> None:
    """A family means its SXM variant, unless the name has another form."""
    found = emulated(f"emulated:{name}")
    assert (found.key, found.count) == (f"emulated-{name}-x1", 1)
    assert found.peak_flops == peak_flops
    assert found.derive_step_s(peak_flops, 0.5)[0] == pytest.approx(2.0)


def test_one_host_may_feed_several() -> None:
    """Eight devices share the host's batch, so a step takes an eighth of the time."""
    h100, eight = emulated("emulated:h100"), emulated("emulated:8xh100")
    assert (eight.key, eight.count) == ("emulated-h100-x8", 8)
    assert h100.derive_step_s(1e15, 0.4)[0] == pytest.approx(8 * eight.derive_step_s(1e15, 0.4)[0])


@pytest.mark.parametrize(
    ("text", "bytes_per_s", "key"),
    [
        ("emulated:36ms", inf, "emulated-36ms"),
        ("emulated:36ms@2GB/s", 2e9, "emulated-36ms-2gb-s"),
        ("emulated:36ms@500MB/s", 5e8, "emulated-36ms-500mb-s"),
        ("emulated:h100@25GB/s", 25e9, "emulated-h100-x1-25gb-s"),
        ("emulated:8xh100@1.5GB/s", 1.5e9, "emulated-h100-x8-1.5gb-s"),
    ],
)
def test_a_suffix_sets_the_bandwidth(text: str, bytes_per_s: float, key: str) -> None:
    """The key contains the bandwidth, in characters that the schema allows."""
    found = emulated(text)
    assert (found.copy_bytes_per_s, found.key) == (bytes_per_s, key)
    assert re.fullmatch("[a-z0-9.+-]+", found.key)


@pytest.mark.parametrize("flops", [2e12, lambda: 2e12])
def test_the_step_time_follows_from_the_flops(flops: Flops) -> None:
    """The step time is FLOPs / (peak x MFU), whether FLOPs are a number or a callable."""
    step_s, described = emulated("emulated:a100").derive_step_s(flops, 0.4)
    assert step_s == pytest.approx(2e12 / (312e12 * 0.4))
    assert described.startswith("emulated:a100, 2 TFLOP ")
    assert described.endswith("MFU 0.4")


@pytest.mark.parametrize("flops", [0, -1.0, inf, float("nan"), lambda: 0])
def test_flops_are_checked(flops: Flops) -> None:
    """FLOPs must be above 0 and finite, wherever they come from."""
    with pytest.raises(MisuseError, match=r"FLOPs .* finite; found"):
        emulated("emulated:h100").derive_step_s(flops, 0.4)


def test_a_step_of_centuries_is_misuse() -> None:
    """A step time whose end in nanoseconds exceeds 64 bits is refused."""
    with pytest.raises(MisuseError, match=r"less than 1e9 s a step; found 1\.0"):
        emulated("emulated:h100").derive_step_s(1e40, 0.1)


def test_a_name_without_flops_is_misuse() -> None:
    """The message names every way to give the FLOPs."""
    with pytest.raises(MisuseError, match="h100 needs") as raised:
        emulated("emulated:h100").derive_step_s(None, 0.4)
    for way in ("--flops-per-step", "netpipe_flops_per_step", "attribute flops_per_step", "36ms"):
        assert way in str(raised.value)


def test_auto_is_what_jax_finds() -> None:
    """`auto` does not emulate an accelerator."""
    assert parse_accelerator("auto") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AUTO",
        "emulated",
        "emulated:36",
        "emulated:0ms",
        "emulated:-1ms",
        "emulated:1e3ms",
        "emulated:1h",
        "emulated:36ms ",
        "36ms",
        "h100",
        "emulated:h300",
        "emulated:h",
        "emulated:h100-",
        "emulated:h100-x8",
        "emulated:H100",
        "emulated:0xh100",
        "emulated:8x36ms",
        "emulated:36ms@0GB/s",
        "emulated:h100@0.0GB/s",
        "emulated:36ms@2GB",
        "emulated:36ms@2TB/s",
        "emulated:36ms@",
        "emulated:1234567890s",
        "emulated:1234567890xh100",
        "emulated:36ms@1234567890GB/s",
    ],
)
def test_another_name_is_misuse(text: str) -> None:
    """An unknown name is refused in one line, with examples and every known name."""
    with pytest.raises(MisuseError, match="emulated:36ms") as caught:
        parse_accelerator(text)
    message = str(caught.value)
    assert message.endswith(f"found {text!r}")
    assert all(name in message for name in ("auto", "t4", "v100-pcie", "a100-sxm", "h100-pcie"))
    assert "\n" not in message


def test_a_list_of_names_may_be_spaced() -> None:
    """Names are split at commas, and surrounding spaces are ignored."""
    assert parse_accelerators("auto, emulated:36ms") == ("auto", "emulated:36ms")
    assert parse_accelerators("auto") == ("auto",)
    assert parse_accelerators("emulated:a100,emulated:8xh100@25GB/s") == (
        "emulated:a100",
        "emulated:8xh100@25GB/s",
    )


@pytest.mark.parametrize("text", ["", "auto,", "auto,36ms"])
def test_every_name_of_a_list_is_checked(text: str) -> None:
    """A list with an unknown name is refused."""
    with pytest.raises(MisuseError, match="emulated:<time>"):
        parse_accelerators(text)
