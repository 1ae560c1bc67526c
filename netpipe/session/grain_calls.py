"""Advice for calls that Grain does not have, from the text of the error and public names alone."""

import re
from pathlib import Path
from traceback import StackSummary
from typing import Final

from netpipe.errors import describe_error
from netpipe.session.processes import LOWER_BUFFERS

_READING: Final = "write .to_iter_dataset(grain.ReadOptions(num_threads=0))"
_WORKERS: Final = "write .mp_prefetch(grain.MultiprocessingOptions(num_workers=2))"
_BEFORE: Final = "before .to_iter_dataset(...)"
_OR: Final = f"{_BEFORE}, or grain.experimental"
_SAMPLER: Final = "sampler=grain.samplers.IndexSampler(..., shuffle=True, num_epochs=None)"
# By the last functions, each with the name of its file, by the class of Grain that lacks an
# attribute, and by the error.
_ADVICE: Final = {
    r" MapDataset\.(mp_)?prefetch\b": f"{_READING}.mp_prefetch(...)",
    r" IterDataset\.shuffle\b": f"write it {_OR}.WindowShuffleIterDataset(dataset, ...)",
    r" IterDataset\.repeat\b": f"write it {_OR}.RepeatIterDataset(dataset)",
    r" IterDataset\.slice|IterDataset' object is not subs": f"write it {_OR}.LimitIterDataset(...)",
    r"IterDataset' has no len": f"write it {_BEFORE}",
    r" IterDataset\.(mix|range|source)\b": r"write grain.MapDataset.\1(...)",
    r" (IterDataset|DataLoader)\.to_iter_dataset\b": "leave .to_iter_dataset(...) out",
    r" DataLoader\.(mp_)?prefetch\b|DataLoader\.__init__\(\) got an .* 'num_workers'": (
        "write worker_count=2 in grain.DataLoader(...)"
    ),
    r" DataLoader\.(repeat|seed|shuffle|slice)\b": f"write {_SAMPLER} in grain.DataLoader(...)",
    r" DataLoader\.(apply|batch|filter|map|map_with_index|pipe|random_map)\b": (
        "write a class of grain.transforms in operations=[...] of grain.DataLoader(...)"
    ),
    r"\.mp_prefetch .*'PerformanceConfig'": "write .mp_prefetch(config.multiprocessing_options)",
    r" prefetch\.__init__ .*'PerformanceConfig'": "write .to_iter_dataset(config.read_options)",
    r"\.mp_prefetch .* no attribute 'num_w|mp_prefetch\(\) got an .* '\w+_": _WORKERS,
    r" interleave\.__init__ .* num_threads must be": f"{_WORKERS}; netpipe lint shows its line",
    r" prefetch\.__init__ .* no attribute 'num_t": _READING,
    r"to_iter_dataset\(\) got an .* '\w+_": _READING,
    r"Config\.update\(\) got an .* '(py_\w+)'": r'write grain.config.update("\1", ...)',
    r"Saving the dataset graph": 'set it to "", and draw by netpipe lint TARGET --svg FILE',
    r"exit code -[79]\b|MemoryError: ": f"memory may have run out: {LOWER_BUFFERS}",
}


def advise(error: BaseException, passed: StackSummary) -> str:
    """Return what to write instead of the call that an error comes from; "" if it is not known."""
    words = [f" {Path(frame.filename).stem}.{frame.name}" for frame in passed[-4:]]
    if isinstance(error, AttributeError):
        owner = error.obj if isinstance(error.obj, type) else type(error.obj)
        kinds = [kind for kind in owner.__mro__ if str(kind.__module__).startswith("grain.")]
        words += [f" {kind.__name__}.{error.name}" for kind in kinds]
    text = f"{''.join(words)} {describe_error(error)}"
    found = (match.expand(_ADVICE[each]) for each in _ADVICE if (match := re.search(each, text)))
    return next(found, "")
