"""Changes of the study's pipeline, and the verdict that each deserves, written before any run."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Change:
    """A change of lines of the pipeline.

    Attributes:
        lines: Each line to replace, without its indentation, and its replacement.
        decisive: Questions that must be among the decisive ones; empty if it must be accepted.
        declared: Lines of `[tool.netpipe.judge.accept]` that come with the change.
        claims: Whether the change claims to be faster.
        is_timed: Whether only timing can decide.
    """

    name: str
    lines: tuple[tuple[str, str], ...]
    decisive: tuple[str, ...] = ()
    declared: tuple[tuple[str, str], ...] = ()
    claims: bool = False
    is_timed: bool = False

    def apply(self, text: str) -> str:
        """Return the changed text of the pipeline."""
        lines = text.splitlines()
        for old, new in self.lines:
            (number,) = (n for n, line in enumerate(lines) if line.strip() == old)
            indentation = lines[number].removesuffix(old)
            lines[number] = "\n".join(indentation + line for line in new.splitlines())
        return "\n".join(lines) + "\n"


_SLICE: Final = "elements = elements[shard_index::shard_count]"
_SHUFFLE: Final = "elements = elements.shuffle(seed=SEED)"
_MAP: Final = "elements = elements.map(decode)"
_FLIP: Final = "elements = elements.seed(SEED).random_map(flip)"
_REPEAT: Final = "elements = elements.repeat()"
_STREAM: Final = "stream = elements.to_iter_dataset(grain.ReadOptions(num_threads=1))"
_FILTER: Final = "stream = stream.filter(is_known)"
_BATCH: Final = "return stream.batch(BATCH)"
_DECODED: Final = 'return {"pixels": pixels.astype(np.float32), "label": np.int32(record["label"])}'
_FLIPPED: Final = 'return {**element, "pixels": pixels * (1 + random.integers(100))}'
_PIXELS: Final = (
    'pixels = np.frombuffer(zlib.decompress(record["picture"]), np.uint8).reshape(SIZE)'
)
_READ: Final = "pixels = np.random.default_rng(index).integers(32, size=SIZE, dtype=np.uint8)"
_WINDOW: Final = "grain.experimental.WindowShuffle"
_OPTIONS: Final = "grain.MultiprocessingOptions"
_PREFETCH: Final = "grain.experimental.ThreadPrefetchIterDataset"
_RESUMED: Final = "return Resumed(stream.batch(BATCH))"

CHEATS: Final = (
    Change(
        "records repeated from a cache", ((_READ, f"index -= index % 2\n{_READ}"),), ("data",)
    ),
    Change(
        "records dropped", ((_SLICE, "elements = elements[shard_index:-50:shard_count]"),),
        ("data", "complete"),
    ),
    Change(
        "a filter that drops more",
        ((_FILTER, "stream = stream.filter(lambda each: each['label'] < 9)"),),
        ("data", "complete"),
    ),
    Change(
        "smaller pictures", ((_DECODED, _DECODED.replace("pixels.astype", "pixels[::2].astype")),),
        ("data",),
    ),
    Change(
        "decoding skipped for every fourth label",
        ((_PIXELS, f"{_PIXELS}\npixels = pixels * bool(record['label'] % 4)"),), ("data",),
    ),
    Change("shuffle removed", ((_SHUFFLE, "pass"),), ("data",)),
    Change(
        "shuffle within a window",
        ((_SHUFFLE, f"elements = {_WINDOW}MapDataset(elements, window_size=16, seed=SEED)"),),
        ("data",),
    ),
    Change(
        "shuffle after the batch",
        (
            (_SHUFFLE, "pass"),
            (_BATCH, f"return {_WINDOW}IterDataset(stream.batch(BATCH), window_size=8, seed=SEED)"),
        ),
        ("data",),
    ),
    Change(
        "one seed for all epochs",
        ((_REPEAT, "elements = elements.repeat(reseed_each_epoch=False)"),), ("data",),
    ),
    Change(
        "no seed", ((_SHUFFLE, "elements = elements.shuffle(seed=hash(str(SEED)) % 2**32)"),),
        ("data",),
    ),
    Change(
        "remainder dropped", ((_BATCH, "return stream.batch(BATCH, drop_remainder=True)"),),
        ("data", "complete"),
    ),
    Change(
        "epoch shortened", (("return PICTURES", "return PICTURES // 2"),), ("data", "complete")
    ),
    Change(
        "dtype narrowed", ((_FLIPPED, _FLIPPED.replace("100))}", "100)).astype(np.float32)}")),),
        ("data",),
    ),
    Change(
        "labels shifted",
        ((_DECODED, _DECODED.replace('record["label"]', '(record["label"] + 1) % 12')),),
        ("data",),
    ),
    Change("labels dropped", ((_DECODED, 'return {"pixels": pixels, "label": 0}'),), ("data",)),
    Change("augmentation removed", ((_FLIP, "pass"),), ("data",)),
    Change(
        "augmentation with one seed for all elements",
        ((_FLIP, "elements = elements.map(lambda each: flip(each, np.random.default_rng(SEED)))"),),
        ("data",),
    ),
    Change(
        "all hosts read one shard", ((_SLICE, "elements = elements[0::shard_count]"),),
        ("data", "complete"),
    ),
    Change(
        "order by workers",
        ((_FILTER, f"{_FILTER}\nstream = stream.mp_prefetch({_OPTIONS}(num_workers=2))"),),
        ("data",),
    ),
    Change(
        "resume restarts the epoch",
        ((_BATCH, f"Resumed.set_state = lambda *_: None\n{_RESUMED}"),), ("resumes",),
    ),
    Change(
        "resume is off by one", (("skipped = 0", "skipped = 1"), (_BATCH, _RESUMED)), ("resumes",)
    ),
    Change(
        "states are gone", ((_BATCH, "return (batch for batch in stream.batch(BATCH))"),),
        ("resumes",),
    ),
    Change(
        "deeper buffers only",
        ((_STREAM, _STREAM.replace("threads=1", "threads=1, prefetch_buffer_size=4000")),),
        ("faster",), claims=True, is_timed=True,
    ),
    Change(
        "work moved before the first batch", ((_SLICE, f"import time\ntime.sleep(4)\n{_SLICE}"),),
        ("start",), is_timed=True,
    ),
    Change(
        "decoded eight times",
        ((_MAP, "elements = elements.map(lambda r: [decode(r) for _ in range(8)][0])"),),
        ("faster",), is_timed=True,
    ),
)  # fmt: skip
"""Changes that look faster, or harmless, and are wrong."""

HONEST: Final = (
    Change("nothing changed", ()),
    Change("a function renamed", ((_MAP, "unpack = decode\nelements = elements.map(unpack)"),)),
    Change(
        "a lambda around a function", ((_MAP, "elements = elements.map(lambda r: decode(r))"),)
    ),
    Change(
        "pixels filled in place",
        ((_READ, f"pixels = np.empty(SIZE, np.uint8)\n{_READ.replace('pixels', 'pixels[:]')}"),),
    ),
    Change(
        "an array without a reshape",
        ((_PIXELS, 'pixels = np.ndarray(SIZE, np.uint8, zlib.decompress(record["picture"]))'),),
    ),
    Change(
        "another filter with the same result",
        ((_FILTER, "stream = stream.filter(lambda each: each['label'] != 11)"),),
    ),
    Change(
        "more threads, declared", ((_STREAM, _STREAM.replace("threads=1", "threads=4")),),
        declared=(
            ("faster REGRESSED", "less time, more CPU time"),
            ("faster INCONCLUSIVE", "less time, more CPU time"),
        ),
    ),
    Change(
        "a smaller buffer",
        ((_STREAM, _STREAM.replace("threads=1", "threads=1, prefetch_buffer_size=64")),),
    ),
    Change(
        "a prefetch thread",
        ((_BATCH, f"return {_PREFETCH}(stream.batch(BATCH), prefetch_buffer_size=2)"),),
    ),
    Change(
        "one worker, declared",
        ((_BATCH, f"return stream.batch(BATCH).mp_prefetch({_OPTIONS}(1))"),),
        declared=(
            ("faster REGRESSED", "batches cross processes"),
            ("faster INCONCLUSIVE", "batches cross processes"),
            ("memory REGRESSED", "a second process"),
        ),
    ),
    Change(
        "another seed, declared", ((_SHUFFLE, "elements = elements.shuffle(seed=SEED + 1)"),),
        declared=(
            ("data DIFFERENT", "a new seed"), ("shuffled NOT_COMPARED", "augmented"),
            ("complete NOT_COMPARED", "augmented"),
        ),
    ),
    Change(
        "larger batches, declared", ((_BATCH, "return stream.batch(2 * BATCH)"),),
        declared=(
            ("data SAME_ELEMENTS", "for a larger GPU"), ("faster REGRESSED", "twice the batch"),
            ("faster INCONCLUSIVE", "twice the batch"),
        ),
    ),
)  # fmt: skip
"""Refactorings and improvements, some of which declare what they change or cost."""

OURS: Final = Change("nothing changed, this repository", ())
"""This repository's own pipeline as it is, which has no lines of the study's to change."""
