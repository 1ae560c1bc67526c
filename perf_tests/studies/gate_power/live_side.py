"""The program of one side of a duet of targets."""

import sys


def side_command(loader: str, step: str | None = None) -> list[str]:
    """Return the command of a side of targets."""
    command = [sys.executable, "-P", __file__, "--loader", loader]
    return command + (["--step", step] if step else [])


if __name__ == "__main__":  # loader workers import this file again
    from netpipe.duets.duet_job import take_part
    from netpipe.duets.duet_request import DuetRequest
    from netpipe.measuring.targets import run_on_targets

    run_on_targets(DuetRequest, take_part)
