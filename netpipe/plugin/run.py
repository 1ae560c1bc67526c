"""The state of one run: its measurer, its gate, and what ends it."""

import signal
from dataclasses import dataclass, field
from functools import cached_property

from netpipe.device.emulated_names import parse_accelerator
from netpipe.plugin.gate import Gate, Selection
from netpipe.plugin.measurer import Measurer
from netpipe.plugin.options import Options
from netpipe.results.measurement import Device
from netpipe.results.units import format_seconds


@dataclass
class Run:
    """One run of pytest.

    Attributes:
        left_to_run: The ids of the timed tests that pytest-xdist's workers left out, in order.
        ended_by: The number of the signal that ended the run; 0 without one.
    """

    options: Options
    measurer: Measurer
    gate: Gate
    left_to_run: dict[str, None] = field(default_factory=dict)
    ended_by: int = 0
    is_finishing: bool = False

    @property
    def selection(self) -> Selection:
        """The tests of the run."""
        return self.gate.selection

    @cached_property
    def device(self) -> Device:
        """The device that jax finds, looked up in a process of its own."""
        return self.measurer.jobs.find_device()

    def device_key(self, accelerator: str) -> str:
        """Return the key of the device here, or of the emulated one."""
        emulated = parse_accelerator(accelerator)
        return self.device.key if emulated is None else emulated.key

    def interrupt(self, number: int) -> KeyboardInterrupt | None:
        """Note the signal that ends the run, and return the error that ends it.

        After the tests, pytest expects no error, and the outputs take no time.
        """
        self.ended_by = number
        return None if self.is_finishing else KeyboardInterrupt(signal.Signals(number).name)

    def report_duration(self) -> None:
        """Tell the user how long the timed tests usually take."""
        sessions = self.options.sessions if self.options.record else 1
        typical = format_seconds(sessions * self.options.request.typical_s)
        duets = ", without its duets" if self.measurer.against else ""
        self.measurer.report_progress(
            f"timed tests: {len(self.selection.timed)}; each loader and step is measured in "
            f"{sessions} session{'s' * (sessions > 1)}, which usually takes {typical}{duets}"
        )
