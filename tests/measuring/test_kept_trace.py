"""A profiler's trace that is kept: where, what of, and what a person sees in it."""

import gzip
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from netpipe.clock import MonotonicClock
from netpipe.errors import LoaderEndedError
from netpipe.jobs.registry import run_job
from netpipe.jobs.request import partial_result_file
from netpipe.jobs.targets import Factories
from netpipe.measuring.emulated_step import EmulatedStep
from netpipe.measuring.loader_puller import Puller
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.measuring.profiler_trace import (
    DEVICE,
    DISPATCH,
    DRAIN,
    LOADING,
    LOOP,
    STEP,
    THREADS,
    NoTraceError,
    keep_trace,
    name_threads,
    trace_file,
)
from netpipe.measuring.step_runner import StepRunner
from netpipe.measuring.training_loop import BlockLength, late_reading_loop, run_train_block
from tests.measuring.conftest import Rehearse

STEPS, SKIPPED = 8, 2
ALL = STEPS + SKIPPED
BATCH = {"x": np.zeros((2, 3), np.int32)}
Span = tuple[float, float]


def events_of(file: Path) -> list[dict[str, Any]]:
    """Read a kept trace as Perfetto would."""
    document = json.loads(gzip.decompress(file.read_bytes()))
    assert set(document) == {"displayTimeUnit", "traceEvents"}
    found: list[dict[str, Any]] = document["traceEvents"]
    return found


def spans_of(events: list[dict[str, Any]], name: str) -> list[Span]:
    """Return when each thing of a name began and ended, in microseconds and in order."""
    return sorted(
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event["ph"] == "X" and event["name"] == name
    )


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place of this test's own for temporary folders."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The trace of a few steps of an emulated accelerator, with a loader of 2 ms."""
    clock, step = MonotonicClock(), EmulatedStep(0.010)

    def loader() -> Iterator[Any]:
        while True:
            clock.sleep(0.002)
            yield BATCH

    stepper = StepRunner(lambda: (step.initial_state(), step), [BATCH, BATCH], clock)
    stepper.warm_up(1.0)
    puller, length = Puller(loader, clock), BlockLength(STEPS, SKIPPED)
    file = tmp_path_factory.mktemp("kept") / "emulated.trace.json.gz"
    keep_trace(lambda: run_train_block(puller, stepper, late_reading_loop, length), file)
    assert [kept_file.name for kept_file in file.parent.iterdir()] == [file.name]
    return events_of(file)


@pytest.mark.parametrize("name", [STEP, LOADING, LOOP, DISPATCH, DEVICE])
def test_everything_is_marked_once_a_step(kept: list[dict[str, Any]], name: str) -> None:
    """As often as there were steps; what is of one kind is not done twice at a time."""
    spans = spans_of(kept, name)
    assert len(spans) == ALL
    assert all(span[1] <= following[0] for span, following in pairwise(spans))


def test_a_step_is_loading_then_the_loop_which_calls_the_step(kept: list[dict[str, Any]]) -> None:
    """Each phase lies in the one that holds it, in the order in which it happened."""
    names = (STEP, LOADING, LOOP, DISPATCH)
    for step, loading, loop, dispatch in zip(
        *(spans_of(kept, name) for name in names), strict=True
    ):
        assert step[0] <= loading[0] <= loading[1] <= loop[0] <= dispatch[0]
        assert dispatch[1] <= loop[1] <= step[1]


def test_the_device_works_from_the_call_to_the_end(kept: list[dict[str, Any]]) -> None:
    """An emulated step is seen: on the device only once it is called, until it is done."""
    device, calls = spans_of(kept, DEVICE), spans_of(kept, DISPATCH)
    for number, (begins_us, ends_us) in enumerate(device):
        assert begins_us >= calls[number][0]
        assert ends_us >= calls[number][1]
    # Ten steps of 10 ms end on time or late, and never early; the first ends come together.
    assert device[-1][1] - calls[0][0] >= ALL * 9_000


@pytest.mark.parametrize("name", [STEP, DEVICE])
def test_steps_are_numbered(kept: list[dict[str, Any]], name: str) -> None:
    """The same number stands at a step of the loop and at the device's work on it."""
    numbered = sorted(
        (event["ts"], int(event["args"]["step_num"])) for event in kept if event.get("name") == name
    )
    assert [number for _, number in numbered] == list(range(ALL))


def test_threads_are_called_by_what_they_do(kept: list[dict[str, Any]]) -> None:
    """The loop and the device can be distinguished at a glance, and from all others."""
    names = {
        event["tid"]: event["args"]["name"] for event in kept if event.get("name") == "thread_name"
    }
    threads = defaultdict(set)
    for event in kept:
        threads[event.get("name")].add(names.get(event.get("tid")))
    assert threads[LOADING] == threads[DISPATCH] == {THREADS[DISPATCH]}
    assert threads[DEVICE] == {THREADS[DEVICE]}


def test_a_thread_that_only_loads_is_called_so() -> None:
    """A loop that prefetches asks for its batches on another thread."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": "python"}}
        for tid in (2, 3, 4)
    ]
    events += [
        {"ph": "X", "pid": 1, "tid": 2, "name": LOADING},
        {"ph": "X", "pid": 1, "tid": 3, "name": DISPATCH},
        {"ph": "X", "pid": 1, "tid": 3, "name": LOADING},
        {},
    ]
    found = name_threads(events)
    names = [event["args"]["name"] for event in found[:3]]
    assert names == [THREADS[LOADING], THREADS[DISPATCH], "python"]
    assert found[3:] == events[3:-1]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("", "h200-x1.trace.json.gz"),
        ("perf/test_a.py::test_b[x y]", "h200-x1_perf-test-a.py-test-b-x-y.trace.json.gz"),
        ("../../etc/passwd", "h200-x1_etc-passwd.trace.json.gz"),
        ("\x1b[5m\n", "h200-x1_5m.trace.json.gz"),
        ("a" * 500, f"h200-x1_{'a' * 120}.trace.json.gz"),
    ],
)
def test_a_trace_is_called_after_the_device_and_the_test(name: str, file: str) -> None:
    """Whatever is in a test's name, its file lies in the folder, and can be written."""
    assert trace_file(Path("traces"), name, "h200-x1") == Path("traces", file)


def forbidden(*_: object, **__: object) -> None:
    """Start no trace."""
    raise RuntimeError("not permitted\nsecond line")


def test_a_profiler_that_is_forbidden_leaves_nothing(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says why in a line; the steps are not run for nothing."""
    monkeypatch.setattr(jax.profiler, "start_trace", forbidden)
    with pytest.raises(NoTraceError, match=r"started: not permitted$"):
        keep_trace(lambda: pytest.fail("it ran"), tmp_path / "a.trace.json.gz")
    assert list(tmp_path.iterdir()) == [temporary]
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    # Without `mtime`, gzip's header holds the second in which it was written.
    [None, b"", b"no gzip", gzip.compress(b"{}", mtime=0), gzip.compress(b"[", mtime=0)],
    ids=["no file", "empty", "not gzip", "no events", "torn JSON"],
)
def test_a_trace_that_cannot_be_read_is_not_kept(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    """Nothing half written, and nothing left behind."""
    folders: list[Path] = []
    monkeypatch.setattr(
        jax.profiler, "start_trace", lambda folder, **_: folders.append(Path(folder))
    )

    def stop() -> None:
        if content is not None:
            (folders[0] / "vm.trace.json.gz").write_bytes(content)

    monkeypatch.setattr(jax.profiler, "stop_trace", stop)
    with pytest.raises(NoTraceError, match=r"the profiler wrote"):
        keep_trace(lambda: None, tmp_path / "a.trace.json.gz")
    assert list(tmp_path.iterdir()) == [temporary]
    assert list(temporary.iterdir()) == []


def test_a_missing_folder_gives_no_trace(tmp_path: Path) -> None:
    """What was measured is not lost for it."""
    with pytest.raises(NoTraceError, match=r"--trace"):
        keep_trace(lambda: None, tmp_path / "gone" / "a.trace.json.gz")


def test_errors_of_the_steps_are_not_the_profilers(tmp_path: Path, temporary: Path) -> None:
    """The profiler is ended, and can be started again."""

    def end() -> None:
        raise LoaderEndedError("no more")

    for _ in range(2):
        with pytest.raises(LoaderEndedError, match="no more"):
            keep_trace(end, tmp_path / "a.trace.json.gz")
    assert list(temporary.iterdir()) == []


def test_a_measurement_names_its_trace(rehearse: Rehearse, tmp_path: Path) -> None:
    """The file is called after the device, and holds steps of no round."""
    found = rehearse(trace=partial(trace_file, tmp_path, "a::b"))
    assert found.trace == str(tmp_path / "h200-x1_a-b.trace.json.gz")
    assert len(spans_of(events_of(Path(found.trace)), STEP)) >= 3
    assert "no-trace" not in [finding.name for finding in found.findings]


def test_a_slow_loader_is_drained_within_its_trace(rehearse: Rehearse, tmp_path: Path) -> None:
    """Else the trace of one that cannot keep up would show the speed of its buffers."""
    slow = rehearse(iter([0.05] * 10_000), trace=partial(trace_file, tmp_path, "slow"))
    fast = rehearse(iter([0.01] * 10_000), trace=partial(trace_file, tmp_path, "fast"))
    drains = [spans_of(events_of(Path(found.trace)), DRAIN) for found in (slow, fast)]
    assert [len(spans) for spans in drains] == [1, 0]
    first = spans_of(events_of(Path(slow.trace)), STEP)[0]
    assert drains[0][0][1] <= first[0]


def test_a_measurement_needs_no_profiler(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says why there is no trace, beside all that it measured."""
    monkeypatch.setattr(jax.profiler, "start_trace", forbidden)
    found = rehearse(trace=partial(trace_file, tmp_path, ""))
    assert found.trace == ""
    messages = {finding.name: finding.message for finding in found.findings}
    assert messages["no-trace"].endswith("started: not permitted")
    assert list(tmp_path.iterdir()) == []


def test_a_loader_that_has_ended_by_then_leaves_its_measurement(
    rehearse: Rehearse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no trace, and a finding says why."""

    def end(_: object) -> None:
        raise LoaderEndedError("all gone")

    monkeypatch.setattr("netpipe.measuring.rounds.RoundRunner.train_for_trace", end)
    found = rehearse(trace=partial(trace_file, tmp_path, ""))
    (finding,) = (finding for finding in found.findings if finding.name == "no-trace")
    assert "all gone" in finding.message
    assert list(tmp_path.iterdir()) == []


def test_no_trace_is_taken_unasked(rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profiler slows what it watches."""
    monkeypatch.setattr(jax.profiler, "start_trace", lambda *_, **__: pytest.fail("it was started"))
    assert rehearse().trace == ""


def test_a_session_keeps_the_trace_that_it_is_asked_for(tmp_path: Path) -> None:
    """The folder and the test's name travel with the request."""

    def loader() -> Iterator[Any]:
        while True:
            yield BATCH

    traces = tmp_path / "traces"
    traces.mkdir()
    request = MeasureRequest(
        result=str(tmp_path / "result.json"), accelerator="emulated:1ms", budget_s=0.1,
        trace=str(traces), trace_name="test_it.py::test_it",
    )  # fmt: skip
    run_job(request, lambda: Factories(loader))
    found = json.loads((tmp_path / "result.json").read_text())["measurement"]
    [file] = traces.iterdir()
    assert file.name == "emulated-1ms_test-it.py-test-it.trace.json.gz"
    assert found["trace"] == str(file)


def test_a_measurement_is_written_before_its_trace_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trace that does not end takes no measurement along; the finding says that there is none."""
    request = MeasureRequest(
        result=str(tmp_path / "result.json"), accelerator="emulated:1ms", budget_s=0.1,
        trace=str(tmp_path),
    )  # fmt: skip
    before: list[Any] = []

    def note_result(*_: object) -> None:
        before.append(json.loads(partial_result_file(request).read_text())["measurement"])

    monkeypatch.setattr("netpipe.measuring.protocol.keep_trace", note_result)
    run_job(request, lambda: Factories(lambda: repeat(BATCH)))
    [found] = before
    [no_trace] = [finding for finding in found["findings"] if finding["name"] == "no-trace"]
    assert "did not end" in no_trace["message"]
    after = json.loads((tmp_path / "result.json").read_text())["measurement"]
    assert no_trace not in after["findings"]
