"""Advice for calls that Grain does not have, from the text of the error and public names alone."""

import re
from typing import Final

from netpipe.errors import describe_error
from netpipe.jobs.processes import LOWER_BUFFERS

# By the class of Grain that lacks an attribute, and by the error.
_ADVICE: Final = {
    r" MapDataset\.(mp_)?prefetch\b": (
        "write .to_iter_dataset(grain.ReadOptions(num_threads=0)).mp_prefetch(...)"
    ),
    r" IterDataset\.(range|repeat|shuffle|slice|source)\b"
    r"|IterDataset' (object is not subscriptable|has no len)": (
        "write it on a grain.MapDataset, before .to_iter_dataset(...)"
    ),
    r" (IterDataset|DataLoader)\.to_iter_dataset\b": "leave .to_iter_dataset(...) out",
    r" DataLoader\.(apply|batch|filter|map|map_with_index|pipe|random_map)\b": (
        "write a class of grain.transforms in operations=[...] of grain.DataLoader(...)"
    ),
    r" DataLoader\.(mp_)?prefetch\b|DataLoader\.__init__\(\) got an .* 'num_workers'": (
        "write worker_count=2 in grain.DataLoader(...)"
    ),
    r" DataLoader\.(repeat|seed|shuffle|slice)\b": (
        "write sampler=grain.samplers.IndexSampler(..., shuffle=True, num_epochs=None)"
    ),
    r"mp_prefetch\(\) got an ": "write .mp_prefetch(grain.MultiprocessingOptions(num_workers=2))",
    r" PerformanceConfig\.num_workers": "write .mp_prefetch(config.multiprocessing_options)",
    r" PerformanceConfig\.num_threads": "write .to_iter_dataset(config.read_options)",
    r"Config\.update\(\) got an .* '(py_\w+)'": r'write grain.config.update("\1", ...)',
    r"Saving the dataset graph": 'set it to "", and draw by netpipe lint TARGET --svg FILE',
    r"exit code -[79]\b|MemoryError: ": f"memory may have run out: {LOWER_BUFFERS}",
}


def advise(error: BaseException) -> str:
    """Return the call to write instead of the one that failed; "" if it is not known."""
    text = describe_error(error)
    if isinstance(error, AttributeError):
        owner = error.obj if isinstance(error.obj, type) else type(error.obj)
        kinds = [kind for kind in owner.__mro__ if str(kind.__module__).startswith("grain.")]
        text = "".join(f" {kind.__name__}.{error.name}" for kind in kinds) + f" {text}"
    found = (match.expand(_ADVICE[each]) for each in _ADVICE if (match := re.search(each, text)))
    return next(found, "")
