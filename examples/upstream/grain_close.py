"""Time how long Grain takes to close an iterator with a worker process."""

import sys
import time

import grain
from absl import flags

ELEMENT_BYTES = 256 * 1024  # more than a pipe holds
CLOSES = 3
LIMIT_S = 10.0


def make_element(number: int) -> bytes:
    """Return an element that is sent through the pipe, not through shared memory."""
    return bytes(ELEMENT_BYTES) + bytes([number % 256])


if __name__ == "__main__":
    flags.FLAGS.mark_as_parsed()
    took_s = []
    for _ in range(CLOSES):
        elements = grain.MapDataset.range(1_000).map(make_element).to_iter_dataset()
        iterator = iter(elements.mp_prefetch(grain.MultiprocessingOptions(num_workers=1)))
        next(iterator)
        time.sleep(1.0)  # the worker fills its buffer
        began_s = time.monotonic()
        iterator.close()
        took_s.append(time.monotonic() - began_s)
        sys.stdout.write(f"closing took {took_s[-1]:.1f} s\n")
    sys.exit(1 if max(took_s) > LIMIT_S else 0)
