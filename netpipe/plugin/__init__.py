"""One pytest run of performance tests: its options, its sessions, its comparisons, its outputs.

Start with `run.py`, the state of a run, and `fixtures.py`, which tests request; the hooks that use
both are in `run_plugin.py`. In the process of a session, those of `session_plugin.py` take
their place. `netpipe.testing` is the interface for tests.
"""
