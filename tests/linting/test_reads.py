"""Whether reading waits: measured, declared by the target, or seen from a path."""

import re
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import grain
import numpy as np
import psutil
import pytest

from netpipe.errors import MisuseError
from netpipe.grain_access.dataset_variants import Variant
from netpipe.grain_access.reader import read_graph
from netpipe.jobs.targets import Factories
from netpipe.linting import lint_job, reads
from netpipe.linting.experiments.variant_comparison import (
    UNCHANGED,
    ElementBlock,
    VariantComparison,
)
from netpipe.linting.lint_job import lint_loader
from netpipe.linting.lint_request import LintRequest
from netpipe.linting.reads import find_reads, measure_batch, measure_reads
from netpipe.linting.rules.finding import Reads
from netpipe.measuring.interleaving import Interleaved
from tests.fakes import FakeClock
from tests.linting.rules.linting import Unreadable, elements, in_workers, loader


class Held(Unreadable):
    """A source that must not be read, with attributes."""

    def __init__(self, **attributes: object) -> None:
        super().__init__()
        vars(self).update(attributes)

    @property
    def url(self) -> str:
        """Fail the test."""
        raise AssertionError("a property was run")


def of(**attributes: object) -> Any:
    """A pipeline over a source with these attributes."""
    return grain.MapDataset.source(Held(**attributes)).batch(4).to_iter_dataset()


class Tokenize(grain.transforms.Map):  # type: ignore[misc]  # no types
    """A map that reads a file of its own, once."""

    def __init__(self, path: str) -> None:
        self.path = path

    def map(self, element: Any) -> Any:
        """Fail the test."""
        raise AssertionError(f"{element} was read")


def no_declaration() -> None:
    """A factory that declares nothing."""


@pytest.fixture(autouse=True)
def _mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the machine some mounts."""
    types = {
        "/": "overlay",
        "/data": "ext4",
        "/data/nfs": "nfs4",
        "/mnt/bucket": "fuse.gcsfuse",
        "/mnt/bucket/scratch": "tmpfs",
        "/mnt/layers": "fuse.fuse-overlayfs",
    }
    mounts = [SimpleNamespace(mountpoint=point, fstype=kind) for point, kind in types.items()]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: mounts)


# ---- Declared


@pytest.mark.parametrize(("storage", "wait"), [("remote", True), ("local", False)])
def test_a_declaration_counts_more_than_a_path(storage: str, wait: bool) -> None:
    """The evidence names the attribute of the factory."""

    def batches() -> None:
        pass

    batches.netpipe_storage = storage  # type: ignore[attr-defined]  # as a user writes it
    found = find_reads(batches, of(path="gs://bucket/rows"))
    assert found == Reads(wait, f"batches.netpipe_storage is '{storage}'")


def test_another_declaration_is_refused() -> None:
    """The message has the values that may be declared, and the one found."""
    batches = partial(no_declaration)
    batches.netpipe_storage = "s3"  # type: ignore[attr-defined]  # as a user writes it
    with pytest.raises(MisuseError, match="must be 'remote', 'local' or missing; found 's3'"):
        find_reads(batches, elements())


# ---- Seen from a path


class Bare(grain.IterDataset):  # type: ignore[misc]  # no types
    """A source of the user's own, which does not call Grain's `__init__`."""

    def __init__(self) -> None:
        self.path = "s3://bucket/own"

    def __iter__(self) -> Any:
        """Fail the test."""
        raise AssertionError("it was read")


@pytest.mark.parametrize(
    ("dataset", "path"),
    [
        (Bare(), "s3://bucket/own (object store)"),
        (of(path="gs://bucket/rows"), "gs://bucket/rows (object store)"),
        (of(reader=Held(paths=["/data/a", "s3://bucket/b"])), "s3://bucket/b (object store)"),
        (of(path="/data/nfs/rows"), "/data/nfs/rows (nfs4)"),
        (of(path=PurePosixPath("/mnt/bucket/a")), "/mnt/bucket/a (fuse.gcsfuse)"),
        (
            grain.MapDataset.source(["gs://b/1", "gs://b/2"]).map(len).to_iter_dataset(),
            "gs://b/1 (object store)",
        ),
        (in_workers(of(path="az://bucket/rows")), "az://bucket/rows (object store)"),
    ],
)
def test_a_path_on_remote_storage_says_that_reading_waits(dataset: Any, path: str) -> None:
    """A path in an object store or on a network mount, of the source or in a list, says so."""
    assert find_reads(no_declaration, dataset) == Reads(
        wait=True, evidence=f"a source has the path {path}"
    )


class Holder:
    """A loader that holds its dataset."""

    def __init__(self) -> None:
        self.dataset = in_workers(of(path="gs://bucket/rows"))

    def __iter__(self) -> Any:
        """Fail the test."""
        raise AssertionError("it was read")


class Rows(grain.MapDataset):  # type: ignore[misc]  # no types
    """A dataset of the user's own, which holds another one."""

    def __init__(self) -> None:
        super().__init__()
        self.index = grain.MapDataset.range(4)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, _: object) -> Any:
        """Fail the test."""
        raise AssertionError("it was read")

    def __iter__(self) -> Any:
        """Fail the test."""
        raise AssertionError("it was read")


def test_a_dataset_that_holds_another_is_searched_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is linted itself, so its own storage counts."""
    searched: list[Any] = []

    def find(_: object, dataset: Any) -> Reads:
        searched.append(dataset)
        return Reads()

    monkeypatch.setattr(lint_job, "find_reads", find)
    lint_loader(LintRequest(result=str(tmp_path / "result.json")), Factories(Rows), ExitStack())
    assert isinstance(searched[0], Rows)


def test_the_path_of_a_held_dataset_is_found(tmp_path: Path) -> None:
    """Its graph is linted, so its storage counts too."""
    request = LintRequest(result=str(tmp_path / "result.json"))
    report = lint_loader(request, Factories(Holder), ExitStack())["lint"]
    reasons = {each["rule"]: each["reason"] for each in report["silenced"]}
    assert reasons["threads-in-workers"] == "a source has the path gs://bucket/rows (object store)"


@pytest.mark.parametrize(
    "dataset",
    [
        of(path="/data/rows"),
        of(path="/data/nfs2/rows"),
        of(path="/mnt/bucket/scratch/rows"),
        of(path="/mnt/layers/rows"),
        of(path="mnt/bucket/rows"),
        of(text="gs://bucket is where the rows were", site="https://example.com/license"),
        of(a=Held(b=Held(c=Held(path="gs://bucket/far")))),
        of(path="/data/rows").map(Tokenize("gs://bucket/vocabulary")),
        elements(),
        loader(workers=0),
        iter(()),
    ],
)
def test_other_paths_say_nothing(dataset: Any) -> None:
    """Local files may wait too, and only the objects that a source holds are searched."""
    assert find_reads(no_declaration, dataset) == Reads()


# ---- Measured


class Machine:
    """A machine whose time passes only while elements are read or made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = FakeClock()
        self.cpu_s = 0.0
        fake_time = SimpleNamespace(process_time=lambda: self.cpu_s)
        monkeypatch.setattr(reads, "time", fake_time)
        monkeypatch.setattr(reads, "core_delay_s", lambda: 0.0)
        monkeypatch.setattr("netpipe.linting.lint_job.Clock", lambda: self.clock)

    def compute(self, element: Any, duration_s: float = 0.0004) -> Any:
        """Take CPU time for an element."""
        self.cpu_s += duration_s
        self.clock.sleep(duration_s)
        return element


class Slow:
    """A source whose reads wait, for longer when it is read for the first time."""

    def __init__(self, machine: Machine, read_s: float, opening_s: float = 0.0) -> None:
        self.machine, self.read_s, self.opening_s = machine, read_s, opening_s

    def __len__(self) -> int:
        """Have many elements."""
        return 10_000

    def __getitem__(self, index: int) -> int:
        """Wait."""
        self.machine.clock.sleep(self.read_s + self.opening_s)
        self.opening_s = 0.0
        return index


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a machine on which only the test's own actions take time."""
    return Machine(monkeypatch)


@pytest.mark.parametrize(
    ("read_s", "compute_s", "wait", "percent"),
    [(0.05, 0.0, True, 100), (0.03, 0.01, True, 75), (0.01, 0.03, False, 25), (0, 0.01, False, 0)],
)
def test_reading_is_measured(
    machine: Machine, read_s: float, compute_s: float, wait: bool, percent: int
) -> None:
    """Reading waits if more than half of its time is not CPU time; opening files does not count."""
    source = grain.MapDataset.source(Slow(machine, read_s, opening_s=2.0)).shuffle(seed=1)
    decoded = source.map(lambda element: machine.compute(element, compute_s))
    dataset = in_workers(decoded.to_iter_dataset().map(lambda _: pytest.fail("it was made")))
    evidence = f"reading was measured to wait for {percent}% of its time"
    assert measure_reads(dataset, machine.clock) == Reads(wait, evidence)
    assert machine.clock() < 4.0


def test_waiting_for_a_core_is_not_waiting_for_storage(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine, a thread that computes does not seem to wait."""
    monkeypatch.setattr(reads, "core_delay_s", machine.clock)
    dataset = grain.MapDataset.source(Slow(machine, 0.05)).to_iter_dataset()
    found = measure_reads(dataset, machine.clock)
    assert found is not None
    assert not found.wait


def fail(_: object) -> None:
    """Fail, as a source without its files does."""
    raise ValueError("no such file")


@pytest.mark.parametrize(
    "dataset",
    [
        elements(),
        grain.MapDataset.range(8).map(fail).to_iter_dataset(),
        grain.MapDataset.range(1).to_iter_dataset(),
        grain.experimental.ParquetIterDataset("a.parquet"),
        iter(()),
    ],
)
def test_what_cannot_be_measured_is_unknown(dataset: Any, machine: Machine) -> None:
    """The trials report a failure; a single element is the warm-up."""
    assert measure_reads(dataset, machine.clock) is None


# ---- The bytes of a batch


class Arrays:
    """A source of arrays of 4 KB that counts its reads, and fails in another process."""

    def __init__(self, read: list[int]) -> None:
        self._read = read

    def __len__(self) -> int:
        """Hold more than any buffer."""
        return 10_000

    def __getitem__(self, index: int) -> Any:
        """Read an element."""
        self._read.append(index)
        return np.zeros(1000, np.int32)


def in_three(dataset: Any) -> Any:
    """A pipeline with three workers and large buffers."""
    return dataset.mp_prefetch(grain.MultiprocessingOptions(3, per_worker_buffer_size=50))


@pytest.mark.parametrize(
    "make",
    [
        lambda source: in_three(source.to_iter_dataset().batch(8)),
        lambda source: in_three(source.batch(8).to_iter_dataset()),
        lambda source: source.batch(8),
        lambda source: grain.experimental.ThreadPrefetchIterDataset(
            source.to_iter_dataset(grain.ReadOptions(num_threads=0)).batch(8),
            prefetch_buffer_size=1,
        ),
        lambda source: grain.DataLoader(
            data_source=source,
            sampler=grain.samplers.SequentialSampler(num_records=10_000),
            operations=[grain.transforms.Batch(8)],
            worker_count=2,
        ),
    ],
)
def test_a_batch_is_measured_without_filling_buffers(make: Callable[[Any], Any]) -> None:
    """One batch is read in this process, whatever the pipeline reads ahead."""
    read: list[int] = []

    def make_loader() -> Any:
        return make(grain.MapDataset.source(Arrays(read)))

    graph = read_graph(make_loader())
    assert measure_batch(make_loader, graph) == pytest.approx(32_000, rel=0.05)
    assert len(read) <= 3 * 8


def broken() -> Any:
    """An IterDataset whose elements cannot be made."""
    return in_three(grain.MapDataset.range(99).map(fail).to_iter_dataset())


KEPT = in_three(grain.MapDataset.range(99).to_iter_dataset())


@pytest.mark.parametrize("make", [broken, lambda: KEPT], ids=["fails", "is-kept"])
def test_a_batch_that_cannot_be_read_has_no_bytes(make: Callable[[], Any]) -> None:
    """A map that fails, and an existing dataset, which would start workers."""
    assert measure_batch(make, read_graph(make())) is None


def test_lint_measures_a_batch_of_large_buffers(tmp_path: Any) -> None:
    """The finding has the bytes and the memory of this host."""
    request = LintRequest(result=str(tmp_path / "result.json"))

    def make_loader() -> Any:
        arrays = grain.MapDataset.source(Arrays([])).to_iter_dataset()
        return in_three(arrays.batch(8))

    findings = lint_loader(request, Factories(make_loader), ExitStack())["lint"]["findings"]
    (message,) = (each["message"] for each in findings if each["rule"] == "buffers-exceed-memory")
    assert re.search(
        r"3 workers x 2 x \(50 \+ 1\) = 306 batches.* with 32\.\d kB for each", message
    )


# ---- The shape of MaxText's pipelines, under --try


def maxtext(
    machine: Machine, read_s: float, decode: Callable[[Any], Any], threads: int = 16
) -> Any:
    """Shuffle, repeat, read with threads, batch, and mp_prefetch last."""
    source = grain.MapDataset.source(Slow(machine, read_s)).shuffle(seed=1).repeat()[0::1]
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=500)
    batches = source.map(decode).to_iter_dataset(options).batch(8, drop_remainder=True)
    return batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=1))


@pytest.fixture
def try_lint(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Lint a factory as --try does, with trials that have no time; return the document."""
    failed = Interleaved[Variant, ElementBlock](failures={UNCHANGED: "it was not run"})
    monkeypatch.setattr(VariantComparison, "_interleave", lambda *_: failed)
    request = LintRequest(result=str(tmp_path / "result.json"), tries=True)
    return lambda *pipeline, **settings: lint_loader(
        request, Factories(partial(maxtext, *pipeline, **settings)), ExitStack()
    )["lint"]


def warnings(document: Any) -> list[str]:
    """The rules that warn."""
    return [each["rule"] for each in document["findings"] if each["severity"] != "info"]


def test_threads_for_a_source_of_50_ms_are_silent(
    machine: Machine, try_lint: Callable[..., Any]
) -> None:
    """Nothing warns, no fix is tried, and the document says why."""
    document = try_lint(machine, 0.05, abs)
    assert warnings(document) == document["trials"] == []
    (aside,) = document["silenced"]
    assert aside["rule"] == "threads-in-workers"
    assert aside["reason"] == "reading was measured to wait for 100% of its time"


@pytest.mark.parametrize(
    ("read_s", "threads", "declared", "rule"),
    [
        (0.0, 16, Reads(), "threads-in-workers"),
        (0.0, 16, Reads(True, "declared"), "threads-in-workers"),
        (0.05, 1, Reads(), "too-few-reads-in-flight"),
    ],
)
def test_what_is_measured_decides_which_rule_warns(
    machine: Machine, try_lint: Callable[..., Any], monkeypatch: pytest.MonkeyPatch,
    read_s: float, threads: int, declared: Reads, rule: str,
) -> None:  # fmt: skip
    """The measurement counts more than a declaration, and the fix of the rule is tried."""
    monkeypatch.setattr("netpipe.linting.lint_job.find_reads", lambda *_: declared)
    document = try_lint(machine, read_s, abs if read_s else machine.compute, threads=threads)
    assert warnings(document) == [trial["rule"] for trial in document["trials"]] == [rule]
    assert bool(document["silenced"]) == (read_s > 0)
