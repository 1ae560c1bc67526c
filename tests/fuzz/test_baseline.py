"""Damaged or made-up baselines are refused or compared sanely."""

import json
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from netpipe.cli import main
from netpipe.errors import InputError
from netpipe.gate import baseline
from netpipe.gate.baseline_changes import compare_baselines
from netpipe.gate.comparison import BaselineSessions, compare
from netpipe.gate.history import find_superfluous, read_entries
from netpipe.gate.metrics import GATED
from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.gate.work_baselines import load_work_baselines, save_work, work_key
from netpipe.gate.work_comparison import compare_work
from netpipe.results.measurement import parse_measurement
from tests.fuzz.mutations import check_message, damaged, mutated_json, read_or_refuse
from tests.measurements import make_measurement
from tests.work_profiles import PROFILE, VERSIONS

NOW = make_measurement(rounds=3)
SAVED = {
    "perf_tests/test_a.py::test_step": (NOW, make_measurement(rounds=3, step_s=0.031)),
    "perf_tests/test_a.py::test_load": (NOW,),
}
DOCUMENT = {
    "datetime": "2025-11-21T14:00:00+00:00",
    "commit_info": {"id": "0dd9428", "dirty": False},
    "benchmarks": [{"fullname": "test_step", "stats": {"data": [0.03, 1e-05]}}],
}
with tempfile.TemporaryDirectory() as _folder:
    CONTENT = baseline.save(Path(_folder), "whole", DOCUMENT, SAVED).read_bytes()
VALID = json.loads(CONTENT)


TEST = "perf_tests/test_work.py::test_work"
with tempfile.TemporaryDirectory() as _folder:
    OF_WORK = save_work(Path(_folder), "whole", {}, {TEST: PROFILE}).read_bytes()


def seal(text: str, valid: Any = VALID) -> bytes:
    """Set a document's digest, if it is JSON and has a field for it."""
    try:
        document = json.loads(text)
        return text.replace(valid["netpipe"]["digest"], baseline.compute_digest(document)).encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return text.encode()


contents = st.one_of(mutated_json(VALID).map(seal), damaged(CONTENT))
contents_of_work = st.one_of(
    mutated_json(json.loads(OF_WORK)).map(partial(seal, valid=json.loads(OF_WORK))),
    damaged(OF_WORK),
)


def check_content(content: bytes, folder: Path) -> None:
    """Check that a file is refused, or that its sessions are sane and decide correctly."""
    path = folder / "0001_drawn.json"
    path.write_bytes(content)
    found = read_or_refuse(baseline.load, path)
    result = CliRunner().invoke(main, ["baseline", "show", str(path)])
    assert (result.exit_code, type(result.exception)) in ((0, type(None)), (2, SystemExit))
    if found is None:
        assert result.exit_code == 2
        check_message(result.stderr.rstrip("\n"), path)
        return
    for session in found.all_sessions:
        text = json.dumps(session.to_document(), allow_nan=False)
        assert parse_measurement(json.loads(text), path) == session
        assert min(_gated_values(session)) > 0
    for sessions in found.sessions.values():
        for comparison in _compare(sessions):
            assert all(map(isfinite, (comparison.now, comparison.then or 0.0)))
            assert comparison.outcome in Outcome
            json.dumps(comparison.worse and list(vars(comparison.worse).values()))
    assert len(read_entries(folder)) == 1
    find_superfluous([found], 1)
    compare_baselines(found, found)


def _gated_values(session: Any) -> Iterator[float]:
    for metrics in GATED.values():
        yield from (metric.value(session) for metric in metrics if not metric.is_share)


def _compare(sessions: Any) -> Iterator[Comparison]:
    for quantity in GATED if sessions else ():
        yield from compare(quantity, [NOW], BaselineSessions("it", sessions)).metrics


@given(content=contents)
def test_it_is_refused_or_sane(tmp_path: Path, content: bytes) -> None:
    """No file gives a traceback, and no accepted one holds or decides nonsense."""
    check_content(content, tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"median": 0.03,', '"median": NaN,', "nan"),
        ('"median": 0.03,', '"median": 1e999,', "inf"),
        ('"median": 0.03,', '"median": 0,', "must contain its median|above 0"),
        ('"median": 0.03,', '"median": -1,', "must contain its median"),
        ('"median": 0.03,', '"median": 1e308,', "the number 1e\\+308"),
        ('"median": 0.03,', '"median": 9,', "must contain its median"),
        ('"cores": 2', f'"cores": {"9" * 5000}', "JSON"),
        ('"cores": 2', '"cores": 2, "cores": 4', "key 'cores' 2 times"),
        ('"cores": 2', f'"cores": {"[" * 100_000}', "JSON"),
        ('"cores": 2', f'"cores": {"[" * 200}{"]" * 200}', "100 levels"),
        ('"cores": 2', '"cores": true', "type integer"),
        ('"netpipe.baseline/1"', '"netpipe.baseline/2"', "upgrade"),
        ('test_load": [0]', 'test_load": [99]', "indices below 2, the number of sessions"),
        ('test_load": [0]', 'test_load": [0.0]', "type integer"),
        ('test_load": [0]', 'test_load": [-1]', "at least 0"),
    ],
)
def test_nonsense_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    """The error says which value is wrong."""
    plain = json.dumps(VALID)
    assert old in plain
    path = tmp_path / "0001_drawn.json"
    path.write_bytes(seal(plain.replace(old, new)))
    with pytest.raises(InputError, match=message):
        baseline.load(path)
    check_content(path.read_bytes(), tmp_path)


@given(content=contents_of_work)
def test_a_work_baseline_is_refused_or_sane(tmp_path: Path, content: bytes) -> None:
    """No file gives a traceback; a readable one compares with finite figures or says why not."""
    folder = tmp_path / work_key(VERSIONS)
    folder.mkdir(exist_ok=True)
    (folder / "0001_drawn.json").write_bytes(content)
    found = read_or_refuse(load_work_baselines, folder)
    profiles = found[0].profiles.values() if found else ()
    for comparison in chain.from_iterable(compare_work(PROFILE, each) for each in profiles):
        assert comparison.reason
        assert isfinite(comparison.now)
        is_compared = comparison.outcome is not Outcome.NOT_COMPARED
        assert not is_compared or (comparison.then is not None and isfinite(comparison.then))
