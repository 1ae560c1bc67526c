"""One pytest run of performance tests: its options, sessions, comparisons and outputs.

Start with `run_plugin.py`, the hooks of a run, and `fixtures.py`. `measurer.py` measures, `gate.py`
compares. A session's process uses `session_plugin.py` instead.
"""
