"""Count a loader's work per batch: calls, allocations, elements and bytes, in one thread.

Each instrument would count the work of the others, so each one has its own run. Every run rebuilds
the loader and takes the same batches.
"""

import gc
import pickle
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from itertools import pairwise
from operator import length_hint
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, TypeVar

import jax
import memray
import numpy as np

from netpipe import clock, jobs, measuring, work_counts
from netpipe.clock import Clock
from netpipe.diagnosis.experiments.instrumented_stages import observed
from netpipe.diagnosis.experiments.stage_times import match_nodes
from netpipe.errors import HarnessError, LoaderEndedError
from netpipe.files.temporary_folders import temporary_folder
from netpipe.grain_access.batch_digests import digest
from netpipe.grain_access.loader_variants import OneThread, single_thread_variant
from netpipe.grain_access.nodes import Graph
from netpipe.grain_access.reader import collect_datasets, read_graph
from netpipe.grain_access.replaced_methods import Method
from netpipe.jobs.failure import SITE_FOLDERS, STDLIB_FOLDER
from netpipe.jobs.footprint import bytes_read, read_between
from netpipe.jobs.heartbeat import Watch
from netpipe.measuring import loader_puller
from netpipe.measuring.loader_puller import Batch, LoaderFactory, Puller, close_with_timeout
from netpipe.measuring.training.step_runner import batch_bytes
from netpipe.measuring.training.token_counts import BY_ELEMENTS, count_tokens
from netpipe.results.work_profile import MAX_EPOCH_BATCHES, WARM_UP_BATCHES

_FREEING: Final = tuple(memray.AllocatorType[name] for name in ("FREE", "MUNMAP", "PYMALLOC_FREE"))
_HARNESS: Final = (
    *(f"{package.__path__[0]}/" for package in (measuring, jobs, work_counts)),
    clock.__file__,
)
_LIBRARIES: Final = (*SITE_FOLDERS, STDLIB_FOLDER)
_METRICS: Final = "/prometheus_client/"
"""Part of the path of the package with which Grain records element times, if it is installed."""
_DURATIONS: Final = "/grain/_src/python/dataset/stats.py"
"""The file in which Grain adds up nanoseconds: a batch that takes longer makes longer integers."""

Part = TypeVar("Part")


@dataclass
class LoaderWork:
    """The counts over some batches.

    Attributes:
        totals: The counts by kind and part, over all batches; see `results.work_profile.KINDS`.
        calls: The number of calls over all batches, by function and caller.
        arrays: The dtype and shape of each array of a batch, by name.
        contents: A digest of each batch.
        epoch_batches: Batches in an epoch; None if it does not end soon and has no length.
        step_batches: The last two batches, on which the step is run.
        tasks_beside: The number of the loader's threads and processes besides this thread.
        cpu_s_per_batch: CPU time of all threads and processes without an instrument; 0: not known.
    """

    batches: int
    tasks_beside: int = 0
    cpu_s_per_batch: float = 0.0
    totals: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    arrays: dict[str, str] = field(default_factory=dict)
    contents: list[str] = field(default_factory=list)
    epoch_batches: int | None = None
    not_counted: dict[str, str] = field(default_factory=dict)
    step_batches: list[Batch] = field(default_factory=list)


def count_loader_work(loader: LoaderFactory, batches: int, watch: Watch) -> LoaderWork:
    """Count the work of a loader over some batches, after the warm-up.

    Only the work of this thread is counted. A loader that is not a Grain pipeline runs unchanged
    and has no stages.

    Raises:
        MisuseError: The loader is not iterable, or yields no batch.
    """
    # The layout of a context depends on its variables' addresses, so setting one, as `np.errstate`
    # does, allocates more in some processes than in others. Begin with an empty context instead.
    return Context().run(_count, loader, batches, watch, np.geterr())


def _count(loader: LoaderFactory, batches: int, watch: Watch, settings: Any) -> LoaderWork:
    np.seterr(**settings)
    watch.enter_phase("the first batches")
    made, graph = single_thread_variant(loader)
    work = _pull_without_instrument(made, batches, watch)
    if work.epoch_batches is None:
        # The variant of a Grain pipeline in one thread has no length.
        work.epoch_batches = _find_stated_length(loader if graph.nodes else made)
    watch.enter_phase("counting calls")
    with _warmed_up(made, watch) as puller:
        _count_calls(work, puller)
    watch.enter_phase("counting allocations")
    with _warmed_up(made, watch) as puller:
        _count_allocations(work, puller)
    watch.enter_phase("counting elements")
    _count_elements(work, made, graph, watch)
    return work


def _pull_without_instrument(loader: LoaderFactory, batches: int, watch: Watch) -> LoaderWork:
    """Return a LoaderWork with its CPU time, for at most the batches of an epoch after warm-up."""
    threads = threading.active_count()
    with _warmed_up(loader, watch) as puller:
        started_s = puller.processes.cpu_s()
        while puller.epoch_batches is None and puller.pulled < WARM_UP_BATCHES + batches:
            puller.pull()
        cpu_s = puller.processes.cpu_s() - started_s
        pulled, epoch = puller.pulled - WARM_UP_BATCHES, puller.epoch_batches
        beside = threading.active_count() - threads + len(puller.list_processes().worker_pids)
        with suppress(LoaderEndedError):
            while puller.epoch_batches is None and puller.pulled < MAX_EPOCH_BATCHES:
                puller.pull()
    fitting = batches if epoch is None else max(1, epoch - WARM_UP_BATCHES)
    work = LoaderWork(fitting, max(0, beside), cpu_s / max(1, pulled))
    work.epoch_batches = puller.epoch_batches
    return work


def _find_stated_length(loader: LoaderFactory) -> int | None:
    length = 0
    with suppress(Exception):  # the user's `__len__` may raise anything
        length = length_hint(loader())
    # An endless dataset of Grain has the largest possible length, divided by its batch size.
    return length if 0 < length < sys.maxsize >> 32 else None


@contextmanager
def _warmed_up(loader: LoaderFactory, watch: Watch) -> Iterator[Puller]:
    puller = Puller(loader, Clock(), watch)
    try:
        while puller.pulled < WARM_UP_BATCHES:
            puller.pull()
        yield puller
    finally:
        close_with_timeout(puller.close)


def _sum_without_once(batches: Sequence[Counter[Part]]) -> Counter[Part]:
    """Return the sums over batches, taking the highest count of a part as its second highest.

    A cost that occurs once, such as opening the next file, must not depend on where it falls.
    """
    sums = sum(batches, Counter[Part]())
    for part in sums:
        amounts = sorted(counts[part] for counts in batches)
        sums[part] -= amounts[-1] - amounts[-2:][0]
    return +sums


def _count_calls(work: LoaderWork, puller: Puller) -> None:
    """Count the Python and C functions that this thread calls, and the bytes that it reads."""
    calls = [Counter[tuple[str, str]]() for _ in range(work.batches)]
    number = 0  # of the batch
    names: dict[CodeType, str] = {}
    depth = 0  # Number of active calls inside the harness's own code.

    def name_function(frame: FrameType) -> str:
        code = frame.f_code
        if code not in names:
            module = frame.f_globals.get("__name__", "")
            is_harness = code.co_filename.startswith(_HARNESS)
            names[code] = "" if is_harness else f"{module}.{code.co_qualname}"
        return names[code]

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal depth
        if event == "return":
            depth -= depth > 0
        elif event == "call":
            if depth or _is_own(frame.f_code.co_filename, frame.f_code.co_name):
                depth += 1
            elif name := name_function(frame):
                assert frame.f_back is not None
                calls[number][name, name_function(frame.f_back)] += 1
        elif event == "c_call" and not depth and (name := name_function(frame)):
            calls[number][_name_builtin(argument), name] += 1

    read = [bytes_read(()), bytes_read(())]
    with _no_garbage_collection():
        sys.setprofile(note)
        try:
            for number in range(work.batches):  # noqa: B007  # `note` uses it
                puller.pull()
                read.append(bytes_read(()))
        finally:
            sys.setprofile(None)
    if not read[0]:
        work.not_counted["read_bytes"] = "the kernel does not report it"
    else:
        # Querying the kernel also reads a few bytes.
        query, *amounts = (read_between(*pair) for pair in pairwise(read))
        batches = [Counter({"": amount - query}) for amount in amounts]
        work.totals["read_bytes"][""] += _sum_without_once(batches)[""]
    work.calls = sum(calls, work.calls)
    for (function, _), amount in _sum_without_once(calls).items():
        work.totals["calls"][function] += amount


def _is_own(file: str, function: str) -> bool:
    """Return whether a function and all its callees belong to the harness, not to the loader.

    The puller's methods call the loader, so their callees are counted.
    """
    calls_loader = file == loader_puller.__file__ and function != close_with_timeout.__name__
    return file.startswith(_HARNESS) and not calls_loader


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Stop the collector, which runs at unpredictable times and calls back into jax."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _name_builtin(function: Any) -> str:
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{module}.{name}" if module else str(name)


def _count_allocations(work: LoaderWork, puller: Puller) -> None:
    """Count this thread's allocations, including memory that it frees again."""
    with temporary_folder("allocations") as folder:
        recording = folder / "recording"
        tracker = memray.Tracker(recording, trace_python_allocators=True)
        with _no_garbage_collection(), tracker:
            for _ in range(work.batches):
                puller.pull()
                _end_batch()
        functions: dict[int, str] = {}
        modules = {
            file: name
            for name, module in sys.modules.items()
            if isinstance(file := getattr(module, "__file__", None), str)
        }
        batches = [Counter[tuple[str, str]]()]
        with memray.FileReader(recording) as reader:
            for record in reader.get_allocation_records():
                if record.allocator not in _FREEING:
                    if record.stack_id not in functions:
                        functions[record.stack_id] = _name_allocator(record.stack_trace(), modules)
                    if (function := functions[record.stack_id]) == _end_batch.__name__:
                        batches.append(Counter())
                    elif function:
                        batches[-1]["allocations", function] += 1
                        batches[-1]["allocated_bytes", function] += record.size
        for (kind, function), amount in _sum_without_once(batches[:-1]).items():
            work.totals[kind][function] += amount


def _end_batch() -> None:
    """Mark the end of a batch in a recording, by an allocation."""
    object()


def _name_allocator(stack: list[tuple[str, str, int]], modules: Mapping[str, str]) -> str:
    """Return the innermost function of user code, else of a library; "" outside the loader."""
    files = [file for _, file, _ in stack]
    if __file__ not in files:
        return ""  # Another thread made the allocation.
    if stack[0][0] == _end_batch.__name__ and files[0] == __file__:
        return _end_batch.__name__
    inner = stack[: files.index(__file__)]
    # Recording a longer time allocates more, because it searches more buckets of a histogram.
    if any(_is_own(file, function) or _METRICS in file for function, file, _ in inner):
        return ""
    if any(file.endswith(_DURATIONS) for _, file, _ in inner[:1]):
        return ""
    called = [frame for frame in inner if frame[1] != loader_puller.__file__]
    own = (frame for frame in called if not any(folder in frame[1] for folder in _LIBRARIES))
    function, file, _ = next(own, called[0] if called else ("", "", 0))
    return function and f"{modules.get(file, Path(file).stem)}.{function}"


def _count_elements(work: LoaderWork, made: LoaderFactory, graph: Graph, watch: Watch) -> None:
    """Count the elements of every stage, and the bytes of the batches."""
    dataset = made()
    if not isinstance(dataset, OneThread):
        for kind in ("elements", "element_bytes", "sent_bytes"):
            work.not_counted[kind] = "the loader is not a Grain pipeline that can run in one thread"
        with _warmed_up(made, watch) as puller:
            _describe_batches(work, puller)
        return
    counter = _ElementCounter()
    own_graph, datasets = read_graph(dataset.dataset), collect_datasets(dataset.dataset)
    with observed(datasets, counter.call), _warmed_up(lambda: dataset, watch) as puller:
        counter.elements.clear()
        counter.bytes.clear()
        _describe_batches(work, puller)
    names = _name_stages(own_graph)
    for number, name in names.items():
        if number in counter.elements:
            work.totals["elements"][name] += counter.elements[number]
            work.totals["element_bytes"][name] += counter.bytes[number]
    work.totals["sent_bytes"][""] += 0
    own_numbers = {node.id: number for number, node in match_nodes(own_graph, graph).items()}
    parents = (graph.nodes[n] for node in graph.nodes if not node.in_worker for n in node.parents)
    # Workers send the elements of these stages to the training process.
    for sender in (parent for parent in parents if parent.in_worker):
        stages = (node.id for node in (sender, *graph.below(sender)) if node.id in own_numbers)
        if (stage := next(stages, None)) is not None:
            work.totals["sent_bytes"][""] += counter.bytes[own_numbers[stage]]


def _name_stages(graph: Graph) -> dict[int, str]:
    """Return the name of each stage; stages with the same name are numbered from the source on."""
    alike: dict[str, list[int]] = defaultdict(list)
    for node in reversed(graph.nodes):
        alike[str(node)].append(node.id)
    return {
        number: f"{name} #{rank}" if len(numbers) > 1 else name
        for name, numbers in alike.items()
        for rank, number in enumerate(numbers, 1)
    }


class _ElementCounter:
    """Counts the elements of numbered datasets, and the bytes it would take to send them."""

    def __init__(self) -> None:
        self.elements: Counter[int] = Counter()
        self.bytes: Counter[int] = Counter()
        self._running: int | None = None

    def call(self, number: int, function: Method, *arguments: Any) -> Any:
        """Call a method of a dataset, and count the element that it returns."""
        # A method that calls the method of its base class is counted once.
        if number == self._running or getattr(function, "__name__", "") == "__len__":
            return function(*arguments)
        outer, self._running = self._running, number
        try:
            element = function(*arguments)
        finally:
            self._running = outer
        if element is not None:  # A filter returns None for an element that it drops.
            self.elements[number] += 1
            self.bytes[number] += _pickled_bytes(element)
        return element


def _pickled_bytes(element: Any) -> int:
    try:
        return len(pickle.dumps(element, pickle.HIGHEST_PROTOCOL))
    except Exception:  # noqa: BLE001  # a user's object may raise anything
        return batch_bytes(element)


def _describe_batches(work: LoaderWork, puller: Puller) -> None:
    """Count the bytes of each array in the batches, their padding, and their digests."""
    for _ in range(work.batches):
        batch, _ = puller.pull()
        work.step_batches = [*work.step_batches[-1:], batch]
        if "contents" not in work.not_counted:
            try:
                work.contents.append(digest(batch).hex())
            except HarnessError as error:
                work.not_counted["contents"] = str(error)
                work.contents.clear()
        for path, leaf in jax.tree_util.tree_leaves_with_path(batch):
            size = getattr(leaf, "nbytes", None)
            if isinstance(size, int) and hasattr(leaf, "dtype"):
                name = jax.tree_util.keystr(path, simple=True, separator=".") or "the batch"
                work.totals["batch_bytes"][name] += size
                work.arrays[name] = f"{leaf.dtype}{list(leaf.shape)}".replace(" ", "")
        counted = count_tokens(batch)
        if counted.rule == BY_ELEMENTS:
            work.not_counted["padding"] = "no segmentation or mask marks it"
        else:
            work.totals["padding"][""] += counted.slots - counted.tokens
