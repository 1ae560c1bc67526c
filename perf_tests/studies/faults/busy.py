"""A core that another process keeps busy."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# It ends when its parent ends, even after SIGKILL.
_SPIN: Final = """
import os, random, sys, time
parent, at_random = int(sys.argv[1]), sys.argv[2] == "True"
while os.getppid() == parent:
    ends = time.monotonic() + random.uniform(0.2, 8)
    works = not at_random or random.random() < 0.75
    while works and time.monotonic() < ends and os.getppid() == parent:
        sum(range(100_000))
    if at_random:
        time.sleep(random.uniform(0, 4))
"""


@contextmanager
def busy_core(*, at_random: bool = False) -> Iterator[int]:
    """Keep one core busy with a process; yield its id.

    Args:
        at_random: Three times in four it computes for 0.2 to 8 s, then rests for 0 to 4 s.
    """
    command = [sys.executable, "-c", _SPIN, str(os.getpid()), str(at_random)]
    process = subprocess.Popen(command)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()
