"""Baselines of work that were damaged or made up: refused, or compared with without nonsense."""

import json
import tempfile
from math import isfinite
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from netpipe.gate.baseline import compute_digest
from netpipe.gate.outcomes import Outcome
from netpipe.gate.work_baselines import load_work_baselines, save_work
from netpipe.gate.work_comparison import compare_work
from tests.fuzz.mutations import damaged, mutated_json, read_or_refuse
from tests.work_profiles import PROFILE

TEST = "perf_tests/test_work.py::test_work"
with tempfile.TemporaryDirectory() as _folder:
    CONTENT = save_work(Path(_folder), "whole", Path(_folder), {TEST: PROFILE}).read_bytes()
VALID = json.loads(CONTENT)


def seal(text: str) -> bytes:
    """Give a document the digest of its content, where it is JSON and has a place for it."""
    try:
        document = json.loads(text)
        return text.replace(VALID["netpipe"]["digest"], compute_digest(document)).encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return text.encode()


@given(st.one_of(mutated_json(VALID).map(seal), damaged(CONTENT)))
def test_a_work_baseline_is_refused_or_sane(content: bytes) -> None:
    """No traceback; what can be read compares with finite figures, or says why it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "0001_drawn.json").write_bytes(content)
        found = read_or_refuse(load_work_baselines, Path(folder))
        profiles = found[0].profiles.values() if found else ()
        for profile in profiles:
            for comparison in compare_work(PROFILE, profile):
                assert comparison.reason
                assert isfinite(comparison.now)
                is_compared = comparison.outcome is not Outcome.NOT_COMPARED
                assert is_compared is not bool(comparison.why_not)
                if is_compared:
                    assert comparison.then is not None
                    assert isfinite(comparison.then)
