"""Sessions: fresh child processes that do one job each and write one result.

`registry.py` lists the jobs. `parent.py` starts, follows and ends a child process, which runs
`child.py`, and `watchdog.py` ends a job that hangs. Other modules describe processes and failures.
"""
