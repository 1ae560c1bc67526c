"""How long each batch takes, by its number, and the two ways to spend that time."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np

Delay = Callable[[int], float]
Spend = Callable[[float], None]

_HASHED: Final = bytes(256 * 1024)  # some 0.2 ms; hashlib releases the lock above 2 KB


@dataclass(frozen=True)
class Steady:
    """Every batch takes `each_s` seconds."""

    each_s: float

    def __call__(self, number: int) -> float:  # noqa: ARG002  # every batch takes equally long
        """Return the seconds of a batch."""
        return self.each_s


@dataclass(frozen=True)
class Stutter:
    """Every `every`-th batch takes `pause_s` longer than `each_s` seconds."""

    each_s: float
    pause_s: float
    every: int

    def __call__(self, number: int) -> float:
        """Return the seconds of a batch; the first pause comes after `every` batches."""
        return self.each_s + (self.pause_s if number % self.every == self.every - 1 else 0.0)


@dataclass(frozen=True)
class Lognormal:
    """Log-normal times with a mean of `mean_s` seconds."""

    mean_s: float
    sigma: float

    def __call__(self, number: int) -> float:
        """Return the seconds of a batch."""
        middle = log(self.mean_s) - self.sigma**2 / 2
        return float(np.random.default_rng(number).lognormal(middle, self.sigma))


@dataclass(frozen=True)
class RareTail:
    """One batch in `every`, at random, takes a Pareto time longer than `each_s` seconds.

    Attributes:
        each_s: Seconds of every batch.
        least_s: Smallest extra time of a rare batch, in seconds.
        alpha: The tail's exponent; the mean is `alpha / (alpha - 1)` times the least.
        every: Number of batches per rare one, on average.
    """

    each_s: float
    least_s: float
    alpha: float
    every: float

    def __call__(self, number: int) -> float:
        """Return the seconds of a batch."""
        generator = np.random.default_rng(number)
        if generator.random() * self.every > 1:
            return self.each_s
        return self.each_s + self.least_s * (1 + float(generator.pareto(self.alpha)))


@dataclass(frozen=True)
class OneSlowWorker:
    """The last of `workers` takes `slow_s` seconds per batch, the others `each_s`."""

    each_s: float
    slow_s: float
    workers: int

    def __call__(self, number: int) -> float:
        """Return the seconds of a batch."""
        return self.slow_s if number % self.workers == self.workers - 1 else self.each_s


def wait(seconds: float) -> None:
    """Wait without the CPU, as for storage or a network."""
    time.sleep(seconds)


def compute(seconds: float) -> None:
    """Spend CPU time with the GIL held, like a transform in pure Python."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(50))


def compute_unlocked(seconds: float) -> None:
    """Spend CPU time without the GIL, like a decoder in C."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        hashlib.sha256(_HASHED)
