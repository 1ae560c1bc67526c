"""Performance regression tests for Grain input pipelines that feed JAX training steps.

`netpipe.harness` measures any loader together with any step and says why training waits;
`netpipe.pytest_plugin` puts its measurements on pytest-benchmark's table and gates them against
baselines; `netpipe.data` and `netpipe.step` are the real pipeline and the real step that this
repository keeps on the bench; `netpipe.cli` is the `netpipe` command.
"""

__version__ = "0.1.0"
