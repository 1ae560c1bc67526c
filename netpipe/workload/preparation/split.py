"""The split of probes into training and evaluation."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netpipe.errors import InputError
from netpipe.workload.sampling.counter_rng import fold_key, uniform

EVAL_FRACTION = 0.05
"""The default fraction of probes in the eval split."""

_SPLIT = 0
_SPLIT_OF_WORD = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("eval", "evaluation", "val", "validation"), "eval"),
}
# These count only as a whole name: `speed_test` and `valid_rows` may name measurements.
_EVAL_NAME = re.compile(r"(test|testing|valid)[\W_]*(\d.*)?")
_RENAME = "Rename it: `train` and `eval` are words that state a split"


def find_splits(files: Sequence[Path], folders: Sequence[Path]) -> list[str]:
    """Return the split that each path states, "train" or "eval"; "" for each if none states one.

    The words come from the names of files and of folders below the common parent of `folders`. The
    name of the parent itself counts if it is one of `folders` and a single word.

    Raises:
        InputError: A path states both splits, or only some of the paths state one.
    """
    given = [folder.absolute() for folder in folders]
    top = Path(os.path.commonpath(given))
    whole = top.name if top in given and re.fullmatch("(split=)?[A-Za-z]+", top.name) else ""
    stated = [_stated_split(file.absolute(), top, whole) for file in files]
    if any(stated) and "" in stated:
        other = files[next(number for number, split in enumerate(stated) if split)]
        constraint = f"state a split, as {other} does"
        raise InputError(files[stated.index("")], "path", constraint, "none", _RENAME)
    return stated


def _stated_split(file: Path, top: Path, whole: str) -> str:
    stated = set[str]()
    for part in (whole, *file.relative_to(top).parent.parts, file.stem):
        name = part.lower().removeprefix("split=")
        words = set(re.split("[^a-z]+", name)) & _SPLIT_OF_WORD.keys()
        stated |= {_SPLIT_OF_WORD[word] for word in words}
        if _EVAL_NAME.fullmatch(name):
            stated.add("eval")
    if len(stated) > 1:
        raise InputError(file, "path", "state one split", "train and eval", _RENAME)
    return next(iter(stated), "")


def split_rows(
    probes: NDArray[np.int64],
    files: NDArray[np.int64],
    paths: Sequence[Path],
    splits: Sequence[str],
) -> NDArray[np.bool_]:
    """Return whether each row is for evaluation, bool (rows,); a probe's rows are in one split.

    For each row, `probes` holds its probe, and `files` the index of its file in `paths`; both are
    int64 (rows,). If the `splits` of the paths are "", an `EvalChoice` with seed 0
    makes the split.

    Raises:
        InputError: A probe is in files of both splits, or there are fewer than two probes.
    """
    if not any(splits):
        extremes = [find_extremes(probes, 0)] if len(probes) else []
        return EvalChoice.among(extremes, 0, EVAL_FRACTION).is_eval(probes)
    in_eval: NDArray[np.bool_] = (np.array(splits) == "eval")[files]
    both = np.intersect1d(probes[in_eval], probes[~in_eval])
    if len(both):
        train, evaluation = (
            paths[files[(probes == both[0]) & (in_eval == side)][0]] for side in (False, True)
        )
        raise both_splits_error(int(both[0]), train, evaluation)
    return in_eval


def both_splits_error(probe: int, train: object, evaluation: object) -> InputError:
    """Return the error for a probe in two files that state different splits."""
    way_out = "Remove it from one of them, or let no name state a split: probes are then split"
    found = f"it in {evaluation} too"
    return InputError(train, f"probe {probe}", "be in one split", found, way_out)


Extremes = tuple[tuple[float, int], tuple[float, int]]
"""The lowest and the highest hash of some probes, from 0 to 1, each with its probe."""


def find_extremes(probes: NDArray[np.int64], seed: int) -> Extremes:
    """Return the extremes of one or more probes."""
    number = uniform(fold_key(seed, probes), _SPLIT)
    first, last = (
        (float(number[place]), int(probes[place])) for place in (number.argmin(), number.argmax())
    )
    return first, last


@dataclass(frozen=True)
class EvalChoice:
    """The eval probes: those whose hash with the seed is low.

    Neither split is empty, because `first`, the probe with the lowest hash, is always for
    evaluation, and `last`, the one with the highest, never is.
    """

    seed: int
    eval_fraction: float
    first: int
    last: int

    @classmethod
    def among(cls, extremes: Sequence[Extremes], seed: int, eval_fraction: float) -> "EvalChoice":
        """Return the choice among all probes, given the extremes of each group of probes.

        Raises:
            InputError: There are fewer than two probes.
        """
        first = min((lowest for lowest, _ in extremes), default=(0.0, 0))[1]
        last = max((highest for _, highest in extremes), default=(0.0, 0))[1]
        if first == last:
            constraint = "be at least 2, for train and eval"
            way_out = "A column prb_id tells probes apart that share an address"
            raise InputError("split", "probes", constraint, min(len(extremes), 1), way_out)
        return cls(seed, eval_fraction, first, last)

    def is_eval(self, probes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each probe, int64 (n,), is for evaluation, bool (n,)."""
        low = uniform(fold_key(self.seed, probes), _SPLIT) < self.eval_fraction
        return np.asarray((low | (probes == self.first)) & (probes != self.last))
