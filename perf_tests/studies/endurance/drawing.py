"""The plot of memory and files over time."""

from collections.abc import Sequence
from io import StringIO
from typing import Final

import matplotlib as mpl

from perf_tests.studies.endurance.watching import Held, list_columns

_PANELS: Final = (
    ("pss_bytes", "memory (PSS), MB", 1e6),
    ("own_bytes", "non-library memory, MB", 1e6),
    ("open_files", "open files", 1),
    ("shared_memory_bytes", "/dev/shm, MB", 1e6),
    ("batches_per_s", "batches/s", 1),
)


def draw_svg(held: Sequence[Held], title: str) -> str:
    """Draw one SVG panel per quantity; axes start at 0, so that flat looks flat."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "netpipe"
    found = list_columns(held)
    minutes = [elapsed_s / 60 for elapsed_s in found["elapsed_s"]]
    figure, panels = plt.subplots(len(_PANELS), sharex=True, figsize=(8, 8), layout="constrained")
    for panel, (name, label, unit) in zip(panels, _PANELS, strict=True):
        panel.plot(minutes, [value / unit for value in found[name]], linewidth=1.2)
        panel.set_ylim(0, 1.15 * max(*found[name], unit) / unit)
        panel.set_ylabel(label)
        panel.grid(visible=True, alpha=0.3)
    panels[0].set_title(title, loc="left", fontsize=10)
    panels[-1].set_xlabel("minutes")
    drawn = StringIO()
    figure.savefig(drawn, format="svg", metadata={"Date": None})
    plt.close(figure)
    return drawn.getvalue()
