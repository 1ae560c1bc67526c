"""The questions that a judgement asks of two versions."""

from pathlib import Path
from typing import Any

import pytest

from netpipe.duets.parent import Side
from netpipe.gate.duets import MAX_DUETS, Duet
from netpipe.judge import judge
from netpipe.judge.judge import Change
from tests.plugin.recorded import make_duet, recorded


@pytest.mark.parametrize("is_declared", [False, True])
def test_a_declared_slowdown_leaves_the_other_metrics_open(
    monkeypatch: pytest.MonkeyPatch, *, is_declared: bool
) -> None:
    """Memory is near its bound, so it is timed further unless the change is refused anyway."""
    base: Any = None
    change = Change(base, Path(), {"loader": base})
    vars(change)["_reasons"] = {"faster REGRESSED": "larger batches"} if is_declared else {}
    duet = make_duet("load_s_per_batch", recorded(), recorded(load_s=0.015, load_cpu_ratio=3.0))
    now = {**duet.now, "peak_pss_bytes": (1.18 * duet.base["peak_pss_bytes"][0],)}
    timed: list[Duet] = []

    def run_duet(*_: object) -> Duet:
        timed.append(Duet(duet.base, now))
        return timed[-1]

    monkeypatch.setattr(Change, "_make_side", lambda *_, **__: Side("", (), base))
    monkeypatch.setattr(judge, "run_duet", run_duet)
    change._time()
    assert (len(timed) == MAX_DUETS) is is_declared
