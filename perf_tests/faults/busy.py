"""A core kept busy by somebody else."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# It ends with its parent, however that ends.
_SPIN: Final = """
import os, sys
parent = int(sys.argv[1])
while os.getppid() == parent:
    sum(range(100_000))
"""


@contextmanager
def busy_core() -> Iterator[int]:
    """Keep one core busy with a process; yield its id."""
    process = subprocess.Popen([sys.executable, "-c", _SPIN, str(os.getpid())])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()
