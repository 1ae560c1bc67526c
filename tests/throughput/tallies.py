"""Made-up tallies of runs."""

from typing import Any

from netpipe.throughput.figures import Tally

_RUN: dict[str, Any] = {
    "wall_s": 4.0,
    "cpu_s": 8.0,
    "batches": 40,
    "examples": 400,
    "tokens": 8000,
    "slots": 10_000,
    "worst_padding_fraction": 0.5,
    "bytes_read": 16_000,
    "peak_pss_bytes": 300_000_000,
    "peak_rss_bytes": 400_000_000,
    "first_batch_s": 1.5,
    "counted_by": "those whose inputs_segmentation is above 0",
    "batch_bytes": 1_000_000,
    "behind_batches": 1.0,
}


def make_tally(**changes: Any) -> Tally:
    """Return a run of 4 seconds: 10 batches of 10 examples, and 2000 tokens, a second."""
    return Tally(**{**_RUN, **changes})
