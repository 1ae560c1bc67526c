"""Windows of watched runs, and the logs that hold them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from netpipe.watching.window import Figures, Waits, Window, judge, sampled_fraction

SECONDS = 10.0
BEGAN_S = 1_700_000_000.0


def make_figures(**given: Any) -> Figures:
    """Make the figures of a window in which a loop of 50 ms waits for 20 ms."""
    usual: dict[str, Any] = {
        "seconds": SECONDS, "batches": 200, "waiting_fraction": 0.4,
        "wait_s": Waits(0.02, 0.025, 0.03), "step_s": 0.05,
        "exposed_fraction": sampled_fraction(60, 200), "synced_fraction": 0.0,
        "worst_tenth_fraction": 0.12, "own_work_fraction": 0.05, "compilations": 0,
    }  # fmt: skip
    return Figures(**{**usual, **given})


def make_window(number: int = 0, idle: float | None = 0.3, **given: Any) -> Window:
    """Make the window with a number; the device is idle for a fraction of its samples."""
    exposed = None if idle is None else sampled_fraction(round(200 * idle), 200)
    figures = make_figures(exposed_fraction=exposed)
    usual: dict[str, Any] = {
        "ended": datetime.fromtimestamp(BEGAN_S + SECONDS * number, UTC).isoformat(),
        "host": "node-1", "pid": 7, "batches_before": 200 * number, "epoch": 1, "figures": figures,
        "verdict": judge(given.get("figures", figures), 200 * number), "examples_per_s": 640.0,
        "tokens_per_s": None, "mfu": None, "memory_bytes": 2 * 10**8, "workers": 4,
    }  # fmt: skip
    return Window(**{**usual, **given})


def line(window: Window) -> str:
    """Return the line of a window."""
    return json.dumps(window.to_document()) + "\n"


def write_log(path: Path, *windows: Window) -> Path:
    """Write the log of a process."""
    path.write_text("".join(map(line, windows)))
    return path
