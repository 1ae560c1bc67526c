"""Permission for Grain to start worker processes."""

from absl import flags


def let_grain_start_workers() -> None:
    """Mark absl's flags as parsed; otherwise Grain starts no worker outside an absl app."""
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
