"""A profiler's trace that is kept: its file, and the marks that a person sees in it."""

import gzip
import json
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any

import jax
import pytest

from netpipe.clock import Clock
from netpipe.errors import LoaderEndedError
from netpipe.jobs.registry import run_job
from netpipe.jobs.request import partial_result_file
from netpipe.jobs.targets import Factories
from netpipe.measuring.loader_puller import Puller
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.measuring.training.emulated_step import EmulatedStep
from netpipe.measuring.training.profiler_trace import (
    DEVICE,
    DISPATCH,
    DRAIN,
    LOADING,
    LOOP,
    STEP,
    NoTraceError,
    keep_trace,
    trace_file,
)
from netpipe.measuring.training.step_runner import StepRunner
from netpipe.measuring.training.training_loop import BlockLength, late_reading_loop, run_train_block
from tests.measuring.conftest import Rehearse
from tests.measuring.simulated import BATCH

STEPS, SKIPPED = 8, 2
ALL = STEPS + SKIPPED
Span = tuple[float, float]


def events_of(file: Path) -> list[dict[str, Any]]:
    """Read a kept trace as Perfetto would."""
    document = json.loads(gzip.decompress(file.read_bytes()))
    assert set(document) == {"displayTimeUnit", "traceEvents"}
    found: list[dict[str, Any]] = document["traceEvents"]
    return found


def spans_of(events: list[dict[str, Any]], name: str) -> list[Span]:
    """Return the begin and the end of each event of a name, in microseconds and in order."""
    return sorted(
        (event["ts"], event["ts"] + event["dur"])
        for event in events
        if event.get("ph") == "X" and event["name"] == name
    )


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary folders."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The trace of a few steps of an emulated accelerator, with a loader of 2 ms."""
    clock, step = Clock(), EmulatedStep(0.010)

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
    """Each mark occurs once a step, one after the other."""
    spans = spans_of(kept, name)
    assert len(spans) == ALL
    assert all(span[1] <= following[0] for span, following in pairwise(spans))


def test_a_step_is_loading_then_the_loop_which_calls_the_step(kept: list[dict[str, Any]]) -> None:
    """Each phase lies within its parent, in the order of events."""
    spans = [spans_of(kept, name) for name in (STEP, LOADING, LOOP, DISPATCH)]
    for step, loading, loop, dispatch in zip(*spans, strict=True):
        assert step[0] <= loading[0] <= loading[1] <= loop[0] <= dispatch[0]
        assert dispatch[1] <= loop[1] <= step[1]


def test_the_device_works_from_the_call_to_the_end(kept: list[dict[str, Any]]) -> None:
    """An emulated step is on the device from its call until its end."""
    device, calls = spans_of(kept, DEVICE), spans_of(kept, DISPATCH)
    for number, (begins_us, ends_us) in enumerate(device):
        assert begins_us >= calls[number][0]
        assert ends_us >= calls[number][1]
    # Ten steps of 10 ms never end early.
    assert device[-1][1] - calls[0][0] >= ALL * 9_000


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
    """Whatever is in a test's name, its file lies in the folder and can be written."""
    assert trace_file(Path("traces"), name, "h200-x1") == Path("traces", file)


def forbidden(*_: object, **__: object) -> None:
    """Fail."""
    raise RuntimeError("not permitted\nsecond line")


def test_a_profiler_that_is_forbidden_leaves_nothing(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the reason in a line, and the steps are not run."""
    monkeypatch.setattr(jax.profiler, "start_trace", forbidden)
    with pytest.raises(NoTraceError, match=r"started: not permitted$"):
        keep_trace(lambda: pytest.fail("it ran"), tmp_path / "a.trace.json.gz")
    assert list(tmp_path.iterdir()) == [temporary]
    assert list(temporary.iterdir()) == []


def test_a_trace_that_is_missing_is_not_kept(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is half written, and nothing is left behind."""
    monkeypatch.setattr(jax.profiler, "start_trace", lambda *_, **__: None)
    monkeypatch.setattr(jax.profiler, "stop_trace", lambda: None)
    with pytest.raises(NoTraceError, match=r"the profiler cannot be ended"):
        keep_trace(lambda: None, tmp_path / "a.trace.json.gz")
    assert list(tmp_path.iterdir()) == [temporary]
    assert list(temporary.iterdir()) == []


def test_a_missing_folder_gives_no_trace(tmp_path: Path) -> None:
    """The error names the flag."""
    with pytest.raises(NoTraceError, match=r"--trace"):
        keep_trace(lambda: None, tmp_path / "gone" / "a.trace.json.gz")


def test_a_full_disk_gives_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a temporary folder, the profiler is not started."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(NoTraceError, match="no room"):
        keep_trace(lambda: pytest.fail("it ran"), tmp_path / "a.trace.json.gz")


def test_a_profiler_that_cannot_end_leaves_nothing(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the reason, and the temporary folder is removed."""
    monkeypatch.setattr(jax.profiler, "start_trace", lambda *_, **__: None)
    monkeypatch.setattr(jax.profiler, "stop_trace", forbidden)
    with pytest.raises(NoTraceError, match=r"ended: not permitted$"):
        keep_trace(lambda: None, tmp_path / "a.trace.json.gz")
    assert list(temporary.iterdir()) == []


def test_errors_of_the_steps_are_not_the_profilers(tmp_path: Path, temporary: Path) -> None:
    """The profiler is stopped, and can be started again."""

    def end() -> None:
        raise LoaderEndedError("no more")

    for _ in range(2):
        with pytest.raises(LoaderEndedError, match="no more"):
            keep_trace(end, tmp_path / "a.trace.json.gz")
    assert list(temporary.iterdir()) == []


def test_a_measurement_names_its_trace(rehearse: Rehearse, tmp_path: Path) -> None:
    """The file is named after the device and the test."""
    found = rehearse(trace=partial(trace_file, tmp_path, "a::b"))
    assert found.trace == str(tmp_path / "h200-x1_a-b.trace.json.gz")
    assert len(spans_of(events_of(Path(found.trace)), STEP)) >= 3
    assert "no-trace" not in [finding.name for finding in found.findings]


def test_a_slow_loader_is_drained_within_its_trace(rehearse: Rehearse, tmp_path: Path) -> None:
    """Without a drain, the trace would show the speed of the buffers."""
    slow = rehearse(iter([0.05] * 10_000), trace=partial(trace_file, tmp_path, "slow"))
    fast = rehearse(iter([0.01] * 10_000), trace=partial(trace_file, tmp_path, "fast"))
    drains = [spans_of(events_of(Path(found.trace)), DRAIN) for found in (slow, fast)]
    assert [len(spans) for spans in drains] == [1, 0]
    first = spans_of(events_of(Path(slow.trace)), STEP)[0]
    assert drains[0][0][1] <= first[0]


@pytest.mark.parametrize(
    ("place", "error"),
    [
        ("jax.profiler.start_trace", RuntimeError("not permitted")),
        ("netpipe.measuring.rounds.RoundRunner.train_for_trace", LoaderEndedError("all gone")),
    ],
)
def test_a_measurement_survives_a_failed_trace(
    rehearse: Rehearse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    error: Exception,
) -> None:
    """A finding has the reason if the profiler is forbidden or the loader has ended."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(place, fail)
    found = rehearse(trace=partial(trace_file, tmp_path, ""))
    assert found.trace == ""
    messages = {finding.name: finding.message for finding in found.findings}
    assert messages["no-trace"].endswith(str(error))
    assert list(tmp_path.iterdir()) == []


def test_no_trace_is_taken_unasked(rehearse: Rehearse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A profiler would slow the measurement."""
    monkeypatch.setattr(jax.profiler, "start_trace", lambda *_, **__: pytest.fail("it was started"))
    assert rehearse().trace == ""


def test_a_session_keeps_the_requested_trace(tmp_path: Path) -> None:
    """The request has the folder and the name of the test."""
    traces = tmp_path / "traces"
    traces.mkdir()
    request = MeasureRequest(
        result=str(tmp_path / "result.json"), accelerator="emulated:1ms", budget_s=0.1,
        trace=str(traces), trace_name="test_it.py::test_it",
    )  # fmt: skip
    run_job(request, lambda: Factories(lambda: repeat(BATCH)))
    found = json.loads((tmp_path / "result.json").read_text())["measurement"]
    [file] = traces.iterdir()
    assert file.name == "emulated-1ms_test-it.py-test-it.trace.json.gz"
    assert found["trace"] == str(file)


def test_a_measurement_is_written_before_its_trace_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trace that does not end loses no measurement, which has a finding about it."""
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
