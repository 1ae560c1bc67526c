"""The list of baselines, and comparisons of two of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from netpipe.gate import baseline, history
from netpipe.gate.baseline import Baseline
from netpipe.gate.baseline_changes import compare_baselines, compute_spreads
from netpipe.results.measurement import Measurement
from tests.measurements import make_measurement

DOCUMENT = {"datetime": "2026-11-21T14:00:00+00:00", "commit_info": {}, "benchmarks": []}


def held(*sessions: Measurement) -> Baseline:
    """Return a baseline of these sessions, with two benchmarks."""
    return Baseline(Path("0001_a.json"), "", "", {"a::b": sessions, "a::c": sessions})


def entries(folder: Path) -> list[history.Entry]:
    """Return every entry of all devices."""
    return [
        entry for device in history.device_folders(folder) for entry in history.read_entries(device)
    ]


def test_every_baseline_is_an_entry(tmp_path: Path) -> None:
    """Entries are ordered by device and number, and the latest of each device is in use."""
    for device, name in (("t4-x1", "a"), ("h200-x1", "a"), ("h200-x1", "b")):
        baseline.save(tmp_path / device, name, DOCUMENT, {"a::b": (make_measurement(),)})
    (tmp_path / "README.md").write_text("who may write here")
    found = [(entry.path.parent.name, entry.path.name) for entry in entries(tmp_path)]
    assert found == [
        ("h200-x1", "0001_a.json"), ("h200-x1", "0002_b.json"), ("t4-x1", "0001_a.json")
    ]  # fmt: skip
    assert [entry.is_compared for entry in entries(tmp_path)] == [False, True, True]


def test_a_baseline_of_what_no_later_one_holds_is_compared_with(tmp_path: Path) -> None:
    """A recording of some benchmarks leaves the others to the previous file."""
    some = (make_measurement(),)
    for name, held_by in (("a", {"a::b": some, "a::c": some}), ("b", {"a::b": some})):
        baseline.save(tmp_path / "t4-x1", name, DOCUMENT, held_by)
    assert [entry.is_compared for entry in entries(tmp_path)] == [True, True]
    baseline.save(tmp_path / "t4-x1", "c", DOCUMENT, {"a::b": some, "a::c": ()})
    assert [entry.is_compared for entry in entries(tmp_path)] == [False, False, True]


def test_a_damaged_baseline_is_an_entry_too(tmp_path: Path) -> None:
    """A damaged file is listed with its error, and hides none of the others."""
    path = baseline.save(tmp_path / "t4-x1", "a", DOCUMENT, {"a::b": (make_measurement(),)})
    (path.parent / "0002_b.json").write_text("{}")
    good, bad = entries(tmp_path)
    assert (good.error, bad.baseline) == ("", None)
    assert str(bad.path) in bad.error


def test_a_session_counts_once() -> None:
    """A session that two benchmarks share counts once."""
    first, other = make_measurement(), make_measurement(load_s=0.02)
    assert held(first, other).all_sessions == (first, other)


def test_equal_sessions_of_a_benchmark_count_each() -> None:
    """Equal sessions come from different processes, so each counts."""
    session = make_measurement()
    assert held(session, session).all_sessions == (session, session)


def test_the_spread_is_over_sessions() -> None:
    """A spread has the lowest, middle and highest of the session medians."""
    measured = [make_measurement(load_s=load_s) for load_s in (0.03, 0.01, 0.02, 0.021)]
    spreads = compute_spreads(held(*measured))
    assert spreads["load_s_per_batch"] == {"low": 0.01, "median": 0.0205, "high": 0.03}


def test_two_baselines_are_put_side_by_side() -> None:
    """The comparison has every figure with its ratio, and the other differences."""
    before = make_measurement(load_s=0.010)
    after = replace(make_measurement(load_s=0.012), versions={**before.versions, "jax": "0.99"})
    found = compare_baselines(held(before), held(after))
    load = found.figures["load_s_per_batch"]
    assert (load.before, load.after) == (0.010, 0.012)
    assert load.ratio == pytest.approx(1.2)
    assert found.differences == (f"jax: {before.versions.get('jax', 'none')}, then 0.99",)


def test_no_ratio_to_nothing() -> None:
    """A figure that was 0 has no ratio."""
    assert make_measurement().stall_fraction.median == 0
    found = compare_baselines(held(make_measurement()), held(make_measurement(train_s=0.04)))
    assert found.figures["stall_fraction"].ratio is None


@pytest.mark.parametrize(
    ("fingerprints", "keep", "gone"),
    [
        ("", 1, ""),
        ("x", 1, ""),
        ("xx", 1, ""),
        ("xxxxx", 1, "bcd"),
        ("xxxxx", 3, "b"),
        ("oxxxx", 1, "acd"),
        ("oxxxo", 1, "bcd"),
        ("oooox", 2, "abc"),
    ],
)
def test_the_oldest_comparable_and_the_latest_stay(fingerprints: str, keep: int, gone: str) -> None:
    """Files in between may be removed, and so may those not comparable with the latest."""
    baselines = [
        replace(held(replace(make_measurement(), fingerprint=data)), path=Path(name))
        for name, data in zip("abcde", fingerprints, strict=False)
    ]
    assert history.find_superfluous(baselines, keep) == tuple(map(Path, gone))


def test_the_newest_of_each_class_of_host_stays() -> None:
    """The newest baseline of each class of host is kept, because runs use it."""
    first = make_measurement()
    other = replace(first, host=replace(first.host, cpu_model="family 6, model 167"))
    baselines = [
        replace(held(session), path=Path(name))
        for name, session in zip("abcde", (first, first, first, other, other), strict=True)
    ]
    assert history.find_superfluous(baselines, 1) == (Path("b"),)


def test_a_baseline_of_another_class_of_host_is_compared_with(tmp_path: Path) -> None:
    """A recording on another CPU leaves the previous file in use."""
    first = make_measurement()
    other = replace(first, host=replace(first.host, cpu_model="family 6, model 167"))
    for name, session in zip("abc", (first, first, other), strict=True):
        baseline.save(tmp_path / "t4-x1", name, DOCUMENT, {"a::b": (session,)})
    assert [entry.is_compared for entry in entries(tmp_path)] == [False, True, True]


def test_a_test_that_came_back_is_compared_as_runs_compare_it(tmp_path: Path) -> None:
    """On another class of host, runs use the file from before the test was removed."""
    first = make_measurement()
    other = replace(first, host=replace(first.host, cpu_model="family 6, model 167"))
    for name, sessions in (("a", (first,)), ("b", ()), ("c", (other,))):
        benchmarks = {"a::b": sessions, "a::c": (other,)}
        baseline.save(tmp_path / first.device.key, name, DOCUMENT, benchmarks)
    baselines = baseline.load_all(tmp_path / first.device.key)
    held_by = baseline.find_holder("a::b", baselines, first.host)
    assert held_by is not None
    assert held_by.path.name == "0001_a.json"
    folder = tmp_path / first.device.key
    assert history.list_compared(folder, first.host) == ["0001_a.json", "0003_c.json"]
    assert history.list_compared(folder, other.host) == ["0003_c.json"]
    assert history.list_compared(tmp_path / "none", first.host) == []
    assert [entry.is_compared for entry in entries(tmp_path)] == [True, False, True]


def test_a_benchmark_that_only_one_holds_is_a_difference() -> None:
    """A benchmark that was not recorded again, or whose test was removed, is named."""
    before = held(make_measurement())
    sessions = before.sessions["a::b"]
    left_out = replace(before, sessions={"a::b": sessions})
    gone = replace(before, sessions={"a::b": sessions, "a::c": ()})
    (not_recorded,) = compare_baselines(before, left_out).differences
    (removed,) = compare_baselines(before, gone).differences
    assert "a::c was not recorded" in not_recorded
    assert "a::c no longer had a test" in removed


def test_the_only_one_that_holds_a_benchmark_stays() -> None:
    """The newest baseline that holds a benchmark is kept, even if later files lack it."""
    full = held(make_measurement())
    partial = replace(full, sessions={"a::b": full.sessions["a::b"]})
    baselines = [
        replace(held_by, path=Path(name))
        for name, held_by in zip("abcd", (full, full, partial, partial), strict=True)
    ]
    assert history.find_superfluous(baselines, 1) == (Path("c"),)


def test_a_removed_benchmark_stays_removed() -> None:
    """The baseline that says so is kept as long as an older one that holds the benchmark."""
    full = held(make_measurement())
    sessions = {"a::b": full.sessions["a::b"]}
    gone, last = replace(full, sessions={**sessions, "a::c": ()}), replace(full, sessions=sessions)
    for first, superfluous in ((full, "c"), (last, "bc")):
        baselines = [
            replace(held_by, path=Path(name))
            for name, held_by in zip("abcd", (first, gone, last, last), strict=True)
        ]
        assert history.find_superfluous(baselines, 1) == tuple(map(Path, superfluous))


def test_a_removal_is_kept_for_a_baseline_that_is_kept_for_another_removal() -> None:
    """The order in which the benchmarks were added does not matter."""
    sessions = (make_measurement(),)
    recorded: list[dict[str, tuple[Measurement, ...]]] = [
        {"b": sessions}, {"a": sessions, "c": sessions}, {"a": (), "b": sessions}, {"b": ()}, {}
    ]  # fmt: skip
    baselines = [
        replace(held(), path=Path(name), sessions=each)
        for name, each in zip("vwxyz", recorded, strict=True)
    ]
    assert history.find_superfluous(baselines, 1) == (Path("v"),)
