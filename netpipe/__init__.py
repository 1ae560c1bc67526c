"""Performance regression tests for Grain input pipelines that feed JAX training steps.

`jobs` runs child processes, and `measuring` times a user's loader and step in one of them.
`verdict` explains why training waits; `gate` compares with baselines. `linting` reads a Grain
pipeline's graph, `diagnosis` finds the stage and the resource that limit a loader, `work_counts`
counts the work of a batch, `resuming` restores a loader's states, and `throughput` measures loaders
alone. `watching` follows a training run from inside. `plugin` is the pytest plugin, `cli` is the
`netpipe` command, and `reporting` makes their tables and pages. `device` describes accelerators and
hosts, `results` holds the figures, and `workload` is this repository's own pipeline.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netpipe.python_interface import Result, diagnose, lint, measure, watch, work

__all__ = ["Result", "diagnose", "lint", "measure", "watch", "work"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import a name in `__all__` on first use, so that `import netpipe` stays fast."""
    if name not in __all__:
        raise AttributeError(f"module 'netpipe' has no attribute {name!r}")
    from netpipe import python_interface

    return getattr(python_interface, name)
