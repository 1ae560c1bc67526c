"""Count the work that a loader and a step do for a batch, exactly and without a clock.

Start with `reproducible_counts.py`, which counts in two processes and keeps the counts that agree.
In each process, `work_job.py` calls `loader_work.py` and `step_work.py`. The kinds of work are in
`results/work_profile.py`.
"""
