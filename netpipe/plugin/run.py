"""The state of one run: its measurer, its gate, and what ends it."""

import signal
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil

from netpipe.device.emulated_names import parse_accelerator
from netpipe.plugin.against import MAX_DUET_SESSIONS
from netpipe.plugin.gate import Gate, Selection
from netpipe.plugin.measurer import Measurer
from netpipe.plugin.options import Options
from netpipe.plugin.sessions import limit_s
from netpipe.results.measurement import Device


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

    def report_limit(self) -> None:
        """Tell the user how long the timed tests may take."""
        request = self.options.request
        duets_s = limit_s(request, MAX_DUET_SESSIONS) if self.options.against else 0.0
        all_s = self.measurer.sessions_limit_s + duets_s
        self.measurer.report_progress(
            f"timed tests: {len(self.selection.timed)}; a session measures for "
            f"{request.budget_s:g} s; all sessions of one loader and step end within "
            f"{ceil(all_s / 60)} min, of which the first batch may take {request.start_limit_s:g} s"
        )
