"""Text for a language model: lines of a file, tokenised by a regular expression, padded, batched.

Plain Python, no Grain. The first call makes a text of made-up words and keeps it in a folder.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "netpipe-examples")
LINES = 4_000
VOCABULARY_SIZE = 8_000
LENGTH = 256  # tokens
BATCH_SIZE = 64
SEED = 7

PAD, UNKNOWN = 0, 1
TOKEN = re.compile(r"[^\W\d_]+|\d|[^\w\s]")

Vocabulary = dict[str, int]


def make_words(rng: np.random.Generator, count: int) -> np.ndarray:
    """Make up words of one to four syllables."""
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er")]
    lengths = rng.integers(1, 5, count)
    return np.array(["".join(rng.choice(syllables, length)) for length in lengths])


def make_text(path: Path) -> None:
    """Write lines of words, a few of them frequent and many rare, with some punctuation."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(SEED)
    words = make_words(rng, 20_000)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    with unfinished.open("w", encoding="utf-8") as file:
        for _ in range(LINES):
            places = np.minimum(rng.zipf(1.3, rng.integers(60, 240)), len(words)) - 1
            line = " ".join(words[places]).capitalize()
            file.write(line.replace(" ban ", ", ban ").replace(" zo ", ". Zo ") + ".\n")
    unfinished.replace(path)


def split(line: str) -> list[str]:
    """Split a line into words, digits and signs."""
    return TOKEN.findall(line.lower())


def make_vocabulary(path: Path) -> Vocabulary:
    """Number the most frequent words of a text."""
    counts: Counter[str] = Counter()
    with path.open(encoding="utf-8") as file:
        for line in file:
            counts.update(split(line))
    frequent = counts.most_common(VOCABULARY_SIZE - 2)
    return {word: number for number, (word, _) in enumerate(frequent, start=2)}


def tokenize(line: str, vocabulary: Vocabulary) -> list[int]:
    """Return the tokens of a line."""
    return [vocabulary.get(word, UNKNOWN) for word in split(line)]


def pad(tokens: list[int]) -> np.ndarray:
    """Cut or fill a line to its length: int32 (LENGTH,)."""
    padded = np.full(LENGTH, PAD, np.int32)
    kept = tokens[:LENGTH]
    padded[: len(kept)] = kept
    return padded


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, over and over."""
    while True:
        with path.open(encoding="utf-8") as file:
            yield from file


def batches(path: Path, vocabulary: Vocabulary) -> Iterator[dict[str, np.ndarray]]:
    """Yield endless batches."""
    rows = []
    for line in read_lines(path):
        rows.append(pad(tokenize(line, vocabulary)))
        if len(rows) == BATCH_SIZE:
            tokens = np.stack(rows)
            yield {"tokens": tokens, "mask": tokens != PAD}
            rows = []


def loader() -> Iterator[dict[str, np.ndarray]]:
    """Return batches: tokens int32 (BATCH_SIZE, LENGTH), mask bool of the same shape."""
    path = CACHE / f"text-{LINES}.txt"
    if not path.exists():
        make_text(path)
    return batches(path, make_vocabulary(path))
