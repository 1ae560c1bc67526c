"""Where something was measured: the device, the host, the versions."""

from collections.abc import Iterator, Mapping
from typing import Any

from netpipe.page.content import Card, Fact, Facts
from netpipe.page.formatting import format_size


def build_environment_cards(
    host: Mapping[str, Any], versions: Mapping[str, str], device: Mapping[str, Any] | None = None
) -> Iterator[Card]:
    """Yield a card of the host and the device, and one of the versions, where they are known."""
    if facts := (*_device_facts(device or {}), *_host_facts(host)):
        yield Facts("Where", facts)
    if versions:
        yield Facts("Versions", tuple(Fact(name, version) for name, version in versions.items()))


def _device_facts(device: Mapping[str, Any]) -> Iterator[Fact]:
    if "key" in device:
        yield Fact("device", device["key"], device.get("kind", ""))
    if device.get("emulated"):
        yield Fact("step time", "derived, not measured", "the device is a clock")


def _host_facts(host: Mapping[str, Any]) -> Iterator[Fact]:
    if cpu := host.get("cpu"):
        yield Fact("processor", str(cpu), "in a container" if host.get("container") else "")
    if cores := host.get("cores"):
        yield Fact("cores it may use", str(cores))
    if memory_bytes := host.get("memory_bytes"):
        yield Fact("memory", format_size(memory_bytes))
