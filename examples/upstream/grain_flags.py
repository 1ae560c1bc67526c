"""Start a Grain worker in a program that does not parse absl's flags."""

import sys

import grain
from absl.flags import UnparsedFlagAccessError

if __name__ == "__main__":
    elements = grain.MapDataset.range(100).to_iter_dataset()
    try:
        next(iter(elements.mp_prefetch(grain.MultiprocessingOptions(num_workers=1))))
    except UnparsedFlagAccessError as error:
        sys.exit(f"UnparsedFlagAccessError: {error}")
