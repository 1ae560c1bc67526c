"""Ordinary loaders whose counts differ between processes of the same code."""

import os
import queue
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

_ROWS: Final = 64
_LENGTH: Final = 1024
_WRITER: Final = f"""
import random, sys, time
while True:
    sys.stdout.buffer.write(random.randbytes({4 * _LENGTH}))
    time.sleep(random.random() / 5_000)
"""

Batch = dict[str, Any]


def threads() -> Iterator[Batch]:
    """Yield batches that another thread makes, through a queue, as a prefetch thread does."""
    made = queue.Queue[Batch](maxsize=4)

    def fill() -> None:
        numbers = np.random.default_rng(0)
        while True:
            rows = [numbers.integers(1, 1000, _LENGTH, np.int32) for _ in range(_ROWS)]
            made.put({"tokens": np.stack(rows)})

    threading.Thread(target=fill, daemon=True).start()
    while True:
        batch = made.get()
        yield {name: np.sort(array) for name, array in batch.items()}


def pipe() -> Iterator[Batch]:
    """Yield batches of bytes that another program writes to a pipe, at its own speed."""
    with subprocess.Popen([sys.executable, "-c", _WRITER], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        try:
            while True:
                parts, missing = list[bytes](), 4 * _LENGTH * _ROWS
                while missing:
                    parts.append(os.read(writer.stdout.fileno(), missing))
                    missing -= len(parts[-1])
                tokens = np.frombuffer(b"".join(parts), np.int32)
                yield {"tokens": tokens.reshape(_ROWS, _LENGTH)}
        finally:
            writer.kill()


def unseeded() -> Iterator[Batch]:
    """Yield batches of texts of random lengths, some of which are filtered out."""
    drawn = random.Random()  # without a seed, as in many loaders
    while True:
        rows = list[list[int]]()
        while len(rows) < _ROWS:
            row = [drawn.randrange(1, 1000) for _ in range(drawn.randrange(8, 64))]
            if drawn.random() < 0.9:
                rows.append(row)
        tokens = np.zeros((_ROWS, max(map(len, rows))), np.int32)
        for number, row in enumerate(rows):
            tokens[number, : len(row)] = row
        yield {"tokens": tokens}
