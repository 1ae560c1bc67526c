"""Performance regression tests for Grain input pipelines that feed JAX training steps.

A user's loader and step are measured in a child process (`session`, `measuring`); `verdict` says
why training waits, `gate` compares with baselines, `linting` reads a Grain pipeline's graph,
`diagnosis` finds the stage and the resource that limit a loader, `work_counts` counts what a batch
takes, and `resuming` restores a loader's states. `suite` is one pytest run, `page` one HTML page,
`cli` the `netpipe` command; `device` knows accelerators and hosts, and `results` holds what was
measured. `data`, `step` and `throughput` are this repository's own workload.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netpipe.python_interface import Result, diagnose, lint, measure, work

__all__ = ["Result", "diagnose", "lint", "measure", "work"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what `__all__` offers when it is used, so that `import netpipe` stays fast."""
    if name not in __all__:
        raise AttributeError(f"module 'netpipe' has no attribute {name!r}")
    from netpipe import python_interface

    return getattr(python_interface, name)
