"""Any measurement is restored exactly, and any changed byte of a file is noticed."""

import json
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netpipe.errors import InputError
from netpipe.gate import baseline
from netpipe.results.measurement import Finding, Measurement
from tests.measurements import make_measurement

FOLDER = "h200-x1"
DOCUMENT = {
    "datetime": "2025-11-21T14:00:00+00:00",
    "commit_info": {"id": "0dd9428"},
    "benchmarks": [{"fullname": "test_step", "stats": {"data": [0.03, 1e-05]}}],
}
SAVED = {"a::step": (make_measurement(rounds=3),), "a::load": (make_measurement(rounds=3),)}

times_s = st.lists(st.floats(1e-6, 1e3), min_size=3, max_size=3)
findings = st.lists(st.builds(Finding, st.text(), st.text()), max_size=2).map(tuple)


@st.composite
def measurements(draw: st.DrawFn) -> Measurement:
    """Draw a measurement of three rounds, with arbitrary text from users and machines."""
    return make_measurement(
        load_s=draw(times_s),
        step_s=draw(times_s),
        train_s=draw(times_s),
        load_cpu_s=draw(times_s),
        compiled=draw(st.lists(st.integers(0, 9), min_size=3, max_size=3)),
        rounds=3,
        fingerprint=draw(st.text()),
        versions=draw(st.dictionaries(st.text(), st.text(), max_size=3)),
        overhead_fraction=draw(st.none() | st.floats(0, 1)),
        findings=draw(findings),
    )


benchmarks = st.dictionaries(
    st.text(), st.lists(measurements(), min_size=1, max_size=3).map(tuple), min_size=1, max_size=2
)

# Examples share the folder of the test.
few_examples = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@few_examples
@given(sessions=benchmarks)
def test_what_is_loaded_is_what_was_saved(
    tmp_path: Path, sessions: dict[str, tuple[Measurement, ...]]
) -> None:
    """Every figure is restored to the last bit, with every text and each benchmark's sessions."""
    # A folder for each example, because all files of a folder are loaded.
    with TemporaryDirectory(dir=tmp_path) as folder:
        save = partial(baseline.save, Path(folder, FOLDER), "drawn", DOCUMENT, sessions)
        first, second = (baseline.load(save()) for _ in range(2))
        assert baseline.load_all(first.path.parent) == (first, second)
    assert first.sessions == second.sessions == sessions


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a valid baseline file."""
    folder = tmp_path_factory.mktemp("baselines") / FOLDER
    return baseline.save(folder, "whole", DOCUMENT, SAVED).read_bytes()


@settings(few_examples, max_examples=150)
@given(place=st.integers(0), byte=st.integers(0, 255))
def test_no_byte_can_be_another(tmp_path: Path, content: bytes, place: int, byte: int) -> None:
    """A file with one changed byte is refused, or means the same: whitespace may change."""
    place %= len(content)
    path = tmp_path / "0001_changed.json"
    path.write_bytes(content[:place] + bytes([byte]) + content[place + 1 :])
    try:
        loaded = baseline.load(path)
    except InputError:
        return
    assert loaded.sessions == SAVED
    assert json.loads(path.read_bytes()) == json.loads(content)
