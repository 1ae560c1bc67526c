"""Two versions timed side by side, so that both see the same machine load.

`parent.py` starts a process for each version and sends orders to it; `duet_job.py` runs in each of
these processes. `netpipe.gate.duets` compares the blocks.
"""
