"""Sessions: fresh child processes that do one job each and write one result.

Start with `request.py`; `parent.py` starts, follows and ends a child process, `child.py` runs in
it, and `watchdog.py` ends a job that hangs. Other modules describe processes, code and failures.
"""
