"""The speed of a loader that does not feed a step.

`sessions.py` measures loaders in turns; each run is a fresh process that executes `run.py`.
`worker_choice.py` tries numbers of workers in the same way and chooses one.
"""
