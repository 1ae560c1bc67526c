"""Work counts: what a loader and a step do for a batch, counted exactly and without a clock.

Start with `counting.py`, which counts in two processes and keeps what both agree on; `work_job.py`
runs in each. `loader_work.py` and `step_work.py` count; `results/work_profile.py` has the kinds.
"""
