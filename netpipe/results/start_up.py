"""The parts of the time until a loader's first batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final, Literal

from netpipe.results.fields import Amount

START_PARTS: Final = {
    "import_s": ("imports", "import large modules where they are used (`python -X importtime`)"),
    "making_s": ("loader()", "build an index once and keep it"),
    "shipping_s": (
        "starting workers with the dataset",
        "keep a path in it and open the data in the workers (rule large-capture), and import less",
    ),
    "first_read_s": ("the first read", "keep the data or a cache of it nearby"),
    "rest_s": ("filling buffers and the rest", "use fewer workers and smaller buffers"),
}
"""The name of each part of a start, and how to shorten that part."""

# A start that takes longer than this counts as slow.
_SLOW_START_S: Final = 10.0

JsonStartUp = Mapping[
    Literal["import_s", "making_s", "shipping_s", "first_read_s", "rest_s"], Amount | None
]


@dataclass(frozen=True)
class StartUp:
    """The parts of a start, in seconds. A part that is None was not seen and may be in `rest_s`.

    Attributes:
        making_s: The call of `loader()`, which reads indexes and metadata.
        shipping_s: From the end of that call until the first worker has the dataset.
        first_read_s: Reading the first element of the source.
    """

    making_s: float
    rest_s: float
    import_s: float | None = None
    shipping_s: float | None = None
    first_read_s: float | None = None

    @property
    def total_s(self) -> float:
        """Seconds from the imports to the first batch."""
        return sum((seconds or 0.0 for seconds in vars(self).values()), start=0.0)

    def is_slow(self, longest_s: float = 0.0, busy: float = 0.0, cpu_s: float = 0.0) -> bool:
        """Return whether this start, or a later one of `longest_s`, is slow even without load.

        Other programs took the fraction `busy` of the CPU time. Without them, any start takes at
        least `1 - busy` of its time, and this one, which used `cpu_s` CPU seconds, at most
        `cpu_s * busy / (1 - busy)` seconds less.
        """
        delay_s = cpu_s * busy / (1 - busy) if busy < 1 else inf
        least_s = max((1 - busy) * max(longest_s, self.total_s), self.total_s - delay_s)
        return least_s > _SLOW_START_S

    def why_slow(self, longest_s: float = 0.0) -> str:
        """Return the largest part and its remedy; "" if neither this nor a later start is slow."""
        if not self.is_slow(longest_s):
            return ""
        slowest_s = max(longest_s, self.total_s)
        seconds, part = max((vars(self)[part] or 0.0, part) for part in START_PARTS)
        name, remedy = START_PARTS[part]
        if part == "rest_s" and self.first_read_s is None:
            # A measurement does not split this part.
            name, remedy = "work after loader()", "netpipe diagnose splits it for Grain pipelines"
        return (
            f"the first batch took {slowest_s:.0f} s, as it will each time the training starts; the"
            f" largest part is {name}, {seconds:.0f} of {self.total_s:.0f} s: {remedy}"
        )
