"""The state of one run: its options, measurer and gate, and the signal that ended it."""

import signal
from dataclasses import dataclass, field
from functools import cached_property

from netpipe.device.emulated_names import parse_accelerator
from netpipe.plugin.gate import Gate
from netpipe.plugin.measurer import Measurer
from netpipe.plugin.options import Options
from netpipe.results.measurement import Device
from netpipe.results.units import format_count, format_seconds


@dataclass
class Run:
    """One run of pytest.

    Attributes:
        left_to_run: The ids of the timed tests that pytest-xdist workers left out, in order.
        ended_by: The number of the signal that ended the run; 0 if there was none.
    """

    options: Options
    measurer: Measurer
    gate: Gate
    left_to_run: dict[str, None] = field(default_factory=dict)
    ended_by: int = 0
    is_finishing: bool = False

    @cached_property
    def device(self) -> Device:
        """The device that jax finds, detected in a separate process."""
        return self.measurer.jobs.find_device()

    def device_key(self, accelerator: str) -> str:
        """Return the key of an emulated accelerator, or of the device here for "auto"."""
        emulated = parse_accelerator(accelerator)
        return self.device.key if emulated is None else emulated.key

    def interrupt(self, number: int) -> KeyboardInterrupt | None:
        """Remember the signal that ends the run, and return the error to raise.

        Returns None after the tests: pytest expects no error then, and writing outputs is quick.
        """
        self.ended_by = number
        return None if self.is_finishing else KeyboardInterrupt(signal.Signals(number).name)

    def report_duration(self) -> None:
        """Report how long the timed tests usually take."""
        sessions = self.options.sessions if self.options.record else 1
        typical = format_seconds(sessions * self.options.request.typical_s)
        duets = ", without its duets" if self.measurer.against else ""
        self.measurer.report_progress(
            f"timed tests: {len(self.gate.selection.timed)}; each loader and step is measured in "
            f"{format_count(sessions, 'session')}, which usually takes {typical}{duets}"
        )
