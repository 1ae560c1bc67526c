"""The split of probes into training and evaluation."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netpipe.data.sampling.counter_rng import fold_key, uniform
from netpipe.errors import InputError

EVAL_FRACTION = 0.05
"""The default fraction of probes in the eval split."""

_SPLIT = 0
_SPLIT_OF_WORD = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("eval", "evaluation", "val", "validation"), "eval"),
}
# Only as a whole name: `speed_test` and `valid_rows` can be names of measurements.
_EVAL_NAME = re.compile(r"(test|testing|valid)[\W_]*(\d.*)?")
_RENAME = "Rename it: `train` and `eval` are words that state a split"


def find_eval_files(files: Sequence[Path], sources: Sequence[Path]) -> NDArray[np.bool_] | None:
    """Return which files state the eval split by their paths.

    The names of files, of folders in the sources, and of folders in which several sources differ
    are searched for words. The name of a source that holds all files counts if it is a word.

    Returns:
        bool (files,), True for eval, False for train; None if no file states a split.

    Raises:
        InputError: A path states both splits, or only some of the paths state one.
    """
    folders = [(path if path.is_dir() else path.parent).absolute() for path in sources]
    top = Path(os.path.commonpath(folders))
    whole = top.name if top in folders and re.fullmatch("(split=)?[A-Za-z]+", top.name) else ""
    stated = [_stated_split(file.absolute(), top, whole) for file in files]
    if not any(stated):
        return None
    if None in stated:
        other = files[next(number for number, split in enumerate(stated) if split)]
        constraint = f"state a split, as {other} does"
        raise InputError(files[stated.index(None)], "path", constraint, "none", _RENAME)
    return np.array([split == "eval" for split in stated])


def _stated_split(file: Path, top: Path, whole: str) -> str | None:
    stated = set[str]()
    for part in (whole, *file.relative_to(top).parent.parts, file.stem):
        name = part.lower().removeprefix("split=")
        words = set(re.split("[^a-z]+", name)) & _SPLIT_OF_WORD.keys()
        stated |= {_SPLIT_OF_WORD[word] for word in words}
        if _EVAL_NAME.fullmatch(name):
            stated.add("eval")
    if len(stated) > 1:
        raise InputError(file, "path", "state one split", "train and eval", _RENAME)
    return next(iter(stated), None)


def split_rows(
    probes: NDArray[np.int64],
    files: NDArray[np.int64],
    paths: Sequence[Path],
    eval_files: NDArray[np.bool_] | None,
    *,
    seed: int = 0,
    eval_fraction: float = EVAL_FRACTION,
) -> NDArray[np.bool_]:
    """Return which rows are for evaluation, bool (rows,); all rows of a probe are in one split.

    Row by row, `probes` are the probes and `files` the indices in `paths`, int64 (rows,). If
    `find_eval_files` returned None, `choose_eval` chooses.

    Raises:
        InputError: A probe is in files of both splits, or there are fewer than two probes.
    """
    if eval_files is None:
        distinct, which = np.unique(probes, return_inverse=True)
        return choose_eval(distinct, seed=seed, eval_fraction=eval_fraction)[which]
    in_eval = eval_files[files]
    both = np.intersect1d(probes[in_eval], probes[~in_eval])
    if len(both):
        train, evaluation = (
            paths[files[(probes == both[0]) & (in_eval == side)][0]] for side in (False, True)
        )
        way_out = "Remove it from one of them, or let no name state a split: probes are then split"
        found = f"it in {evaluation} too"
        raise InputError(train, f"probe {both[0]}", "be in one split", found, way_out)
    return in_eval


def choose_eval(
    probes: NDArray[np.int64], *, seed: int = 0, eval_fraction: float = EVAL_FRACTION
) -> NDArray[np.bool_]:
    """Choose from distinct probes, int64 (n,), those of the eval split: bool (n,).

    A hash of the probe and the seed decides. The choice for a probe does not depend on the other
    probes, unless a split would be empty: then the probe with the nearest hash moves there.

    Raises:
        InputError: There are fewer than two probes.
    """
    if len(probes) < 2:
        constraint = "be at least 2, for train and eval"
        way_out = "A column prb_id tells probes apart that share an address"
        raise InputError("split", "probes", constraint, len(probes), way_out)
    number = uniform(fold_key(seed, probes), _SPLIT)
    chosen = number < eval_fraction
    chosen[np.argmin(number)] = True
    chosen[np.argmax(number)] = False
    return chosen
