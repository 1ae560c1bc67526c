"""The profiles of synthetic data sets: the choices of `netpipe generate --profile`."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """The size and the distributions of a synthetic data set."""

    probes: int = 4000
    median_measurements: int = 100
    log_sigma: float = 1.6
    max_measurements: int = 170_000
    ipv4_fraction: float = 0.58


PROFILES: Mapping[str, Profile] = {
    # Many small probes, and a few with 10,000 measurements or more.
    "embedded": Profile(),
    "big-rows": Profile(probes=24, median_measurements=170_000, log_sigma=0),
    # 25 measurements per probe on average.
    "small-rows": Profile(probes=20_000, median_measurements=18, log_sigma=0.8),
}
