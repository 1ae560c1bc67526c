"""Fresh child processes that do one job each: started, watched, ended and read.

Start with `session.py` for the parent's side and `child.py` for the child's.
"""
