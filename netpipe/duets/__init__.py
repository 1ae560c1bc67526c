"""Two versions timed side by side, so that the machine's load at any moment is the same for both.

`parent.py` starts a process of each and gives the orders; `child.py` is what such a process does.
What the blocks decide is arithmetic: `netpipe.gate.duets`.
"""
