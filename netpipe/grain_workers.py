"""What Grain asks for before it starts worker processes."""

from absl import flags


def let_grain_start_workers() -> None:
    """Mark absl's flags as parsed: where no absl application has, Grain starts no worker."""
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
