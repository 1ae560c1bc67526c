"""Two versions timed side by side, so that both see the same load of the machine.

`parent.py` starts a process for each version and gives orders; `duet_job.py` runs in the process.
`netpipe.gate.duets` compares the blocks.
"""
