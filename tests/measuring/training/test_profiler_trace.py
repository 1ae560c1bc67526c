"""The overlap of loading and device work, in constructed traces and in a live one."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.profiler import ProfileData

from netpipe.files.temporary_folders import OWN_NAME
from netpipe.measuring.training.profiler_trace import (
    LOADING,
    Span,
    covered_ns,
    load_and_busy_spans,
    load_overlap_fraction,
    mark,
    overlap_fraction,
)

# Names and order as the profiler of jax 0.10.2 writes them: the thread of the loop, one of the CPU
# client, and a device with a line of work and one derived from it. Offsets are in picoseconds.
HOST_PLANE = f"""
planes {{
  name: "/host:CPU"
  event_metadata {{ key: 1 value {{ id: 1 name: "{LOADING}" }} }}
  event_metadata {{ key: 2 value {{ id: 2 name: "PjitFunction(step)" }} }}
  event_metadata {{ key: 3 value {{ id: 3 name: "ynn_fusion.1" }} }}
  event_metadata {{ key: 4 value {{ id: 4 name: "ThreadpoolListener::Record" }} }}
  stat_metadata {{ key: 1 value {{ id: 1 name: "hlo_op" }} }}
  stat_metadata {{ key: 2 value {{ id: 2 name: "_pt" }} }}
  lines {{
    name: "python" timestamp_ns: 1000
    events {{ metadata_id: 1 offset_ps: 0 duration_ps: 20000 }}
    events {{ metadata_id: 2 offset_ps: 20000 duration_ps: 1000 }}
    events {{
      metadata_id: 3 offset_ps: 22000 duration_ps: 2000
      stats {{ metadata_id: 1 str_value: "ynn_fusion.1" }}
    }}
  }}
  lines {{
    name: "tf_XLAPjRtCpuClient/1" timestamp_ns: 1000
    events {{
      metadata_id: 3 offset_ps: 5000 duration_ps: 10000
      stats {{ metadata_id: 2 int64_value: 15 }}
      stats {{ metadata_id: 1 str_value: "ynn_fusion.1" }}
    }}
    events {{ metadata_id: 4 offset_ps: 0 duration_ps: 9000
      stats {{ metadata_id: 2 int64_value: 15 }}
    }}
  }}
}}
"""
DEVICE_PLANE = """
planes {
  name: "/device:GPU:0"
  event_metadata { key: 1 value { id: 1 name: "loop_fusion" } }
  event_metadata { key: 2 value { id: 2 name: "MemcpyH2D" } }
  event_metadata { key: 3 value { id: 3 name: "7" } }
  lines {
    name: "Stream #14(Compute,MemcpyH2D)" timestamp_ns: 1000
    events { metadata_id: 1 offset_ps: 30000 duration_ps: 5000 }
    events { metadata_id: 2 offset_ps: 10000 duration_ps: 5000 }
  }
  lines {
    name: "Steps" timestamp_ns: 1000
    events { metadata_id: 3 offset_ps: 0 duration_ps: 90000 }
  }
}
"""


def trace_of(*planes: str) -> ProfileData:
    """Build a trace."""
    return ProfileData.from_serialized_xspace(
        ProfileData.text_proto_to_serialized_xspace("".join(planes))
    )


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary folders."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@dataclass
class FakeProfiler:
    """A profiler that notes its calls.

    Attributes:
        writes: The content of its trace, or None for no file.
        fails: Whether stopping fails.
    """

    writes: bytes | None = None
    fails: bool = False
    folder: Path = field(default_factory=Path)
    calls: list[str] = field(default_factory=list)

    def start_trace(self, folder: str, **_: object) -> None:
        """Start a trace."""
        self.folder = Path(folder)
        self.calls.append("start")

    def stop_trace(self) -> None:
        """Write the trace."""
        self.calls.append("stop")
        if self.writes is not None:
            (self.folder / "host.xplane.pb").write_bytes(self.writes)
        if self.fails:
            raise OSError("no space left on device")


@pytest.fixture
def profiler(monkeypatch: pytest.MonkeyPatch) -> FakeProfiler:
    """A profiler that replaces jax's."""
    fake = FakeProfiler()
    monkeypatch.setattr(jax.profiler, "start_trace", fake.start_trace)
    monkeypatch.setattr(jax.profiler, "stop_trace", fake.stop_trace)
    return fake


@pytest.mark.parametrize(
    ("spans", "covered"),
    [
        ([], 0),
        ([(1, 1)], 0),
        ([(4, 6), (0, 2)], 4),
        ([(0, 3), (2, 4)], 4),
        ([(0, 9), (1, 2), (4, 5)], 9),
        ([(1, 2), (2, 3)], 2),
    ],
)
def test_each_moment_is_covered_once(spans: list[Span], covered: int) -> None:
    """Spans that overlap, touch or lie in another count once, in any order."""
    assert covered_ns(spans) == covered


@pytest.mark.parametrize(
    ("loads", "busy", "fraction"),
    [
        ([(0, 20), (50, 70)], [(20, 50), (70, 100)], 0.0),
        ([(0, 20), (30, 50)], [(0, 60)], 1.0),
        ([(0, 60)], [(10, 40)], 1.0),
        ([(0, 20)], [(15, 45)], 0.25),
        ([(0, 20), (0, 20)], [(10, 30), (10, 25)], 0.5),
        ([], [(0, 1)], None),
        ([(0, 1)], [], None),
        ([(1, 1)], [(0, 2)], None),
    ],
)
def test_the_overlap_is_over_the_shorter_of_the_two(
    loads: list[Span], busy: list[Span], fraction: float | None
) -> None:
    """Parallel threads count once; without loading or work the overlap is None."""
    assert overlap_fraction(loads, busy) == fraction


def test_without_an_accelerator_the_cpu_clients_operations_are_the_work() -> None:
    """Operations count on any thread; dispatch and bookkeeping do not."""
    loads, busy = load_and_busy_spans(trace_of(HOST_PLANE))
    assert loads == [(1000.0, 1020.0)]
    assert busy == [(1022.0, 1024.0), (1005.0, 1015.0)]


@pytest.mark.parametrize("line", ["Stream #14(Compute,MemcpyH2D)", "XLA Ops"])
def test_an_accelerators_operations_are_the_work(line: str) -> None:
    """Copies, derived lines and the host's operations do not count."""
    device = DEVICE_PLANE.replace("Stream #14(Compute,MemcpyH2D)", line)
    loads, busy = load_and_busy_spans(trace_of(HOST_PLANE, device))
    assert loads == [(1000.0, 1020.0)]
    assert busy == [(1030.0, 1035.0)]


@pytest.mark.parametrize(("hides", "expected"), [(False, 0.0), (True, 1.0)])
def test_a_live_trace_gives_the_fraction_and_leaves_nothing_behind(
    temporary: Path, hides: bool, expected: float
) -> None:
    """The overlap is 0 in turns and 1 around each step; the profiler can be started again."""
    step = jax.jit(lambda x: jnp.tanh(x @ x))
    first = step(jnp.ones((64, 64))).block_until_ready()

    def run() -> None:
        x = first
        for _ in range(3):
            with mark(LOADING):
                np.sort(np.arange(10_000))
                x = step(x).block_until_ready() if hides else x
            x = x if hides else step(x).block_until_ready()

    for _ in range(2):
        assert load_overlap_fraction(run) == pytest.approx(expected, abs=0.01)
        assert not jax.profiler.TraceAnnotation.is_enabled()
        assert list(temporary.iterdir()) == []


HOST_TRACE = ProfileData.text_proto_to_serialized_xspace(HOST_PLANE)


@pytest.mark.parametrize(
    ("writes", "fails", "overlap"),
    [
        (HOST_TRACE, False, pytest.approx(10 / 12)),
        (HOST_TRACE, True, None),
        (None, False, None),
        (b"", False, None),
        (b"\xff", False, None),
    ],
)
def test_the_trace_that_was_written_is_read(
    temporary: Path, profiler: FakeProfiler, writes: bytes | None, *, fails: bool, overlap: Any
) -> None:
    """A missing or damaged trace gives None; its folder has a name of netpipe's and is removed."""
    profiler.writes, profiler.fails = writes, fails
    assert load_overlap_fraction(lambda: profiler.calls.append("run")) == overlap
    assert profiler.calls == ["start", "run", "stop"]
    assert profiler.folder.parent == temporary
    assert OWN_NAME.fullmatch(profiler.folder.name)
    assert list(temporary.iterdir()) == []


def test_a_full_disk_gives_no_overlap(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, profiler: FakeProfiler
) -> None:
    """The profiler is not started without a temporary folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "absent"))
    assert load_overlap_fraction(lambda: pytest.fail("it ran")) is None
    assert profiler.calls == []


def test_errors_of_the_steps_are_raised(temporary: Path, profiler: FakeProfiler) -> None:
    """The profiler is stopped and its folder removed."""

    def run() -> None:
        raise ValueError("at batch 57")

    with pytest.raises(ValueError, match="at batch 57"):
        load_overlap_fraction(run)
    assert profiler.calls == ["start", "stop"]
    assert list(temporary.iterdir()) == []
