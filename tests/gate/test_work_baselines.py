"""Baselines of work: their folders and contents, and which one is compared."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from netpipe.errors import InputError
from netpipe.gate import work_baselines
from netpipe.gate.baseline_changes import file_changes
from netpipe.gate.history import device_folders
from netpipe.gate.outcomes import Outcome
from netpipe.gate.work_baselines import (
    compare_with_baselines,
    find_counted,
    load_nearest,
    load_work_baselines,
    save_work,
    work_key,
)
from netpipe.results.work_profile import WorkProfile
from tests.work_profiles import PROFILE, VERSIONS, make_profile

TEST = "perf_tests/test_work.py::test_work"
KEY = "python3.11.7-grain0.2.18-jax0.10.2-arrayrecord0.8.3"
COMMIT = {"id": "4e5cdbbd1d76", "dirty": False}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the profiles' versions."""
    return tmp_path / "work" / KEY


def test_the_key_names_what_does_the_work() -> None:
    """The key has every installed package of the list with its version, and no others."""
    assert work_key({**VERSIONS, "scipy": "1.0"}) == KEY


def test_a_baseline_is_read_back(folder: Path) -> None:
    """The newest baseline comes last; its name has the key and the file."""
    save_work(folder, "first", COMMIT, {TEST: PROFILE})
    path = save_work(folder, "second", COMMIT, {TEST: make_profile(batches=3)})
    first, second = load_work_baselines(folder)
    assert first.profiles == {TEST: PROFILE}
    assert second.profiles[TEST].batches == 3
    assert second.path == path
    assert second.name == f"work/{KEY}/0002_second.json"


def test_a_removed_test_counts_until_it_is_recorded_again(folder: Path) -> None:
    """A later baseline removes a test of an earlier one; one of some tests removes none."""
    save_work(folder, "first", COMMIT, {TEST: PROFILE, "other": PROFILE})
    assert find_counted(load_work_baselines(folder)) == {TEST, "other"}
    save_work(folder, "second", COMMIT, {TEST: PROFILE})
    assert find_counted(load_work_baselines(folder)) == {TEST, "other"}
    save_work(folder, "third", COMMIT, {TEST: PROFILE}, removed=["other"])
    found = load_work_baselines(folder)
    assert find_counted(found) == {TEST}
    assert compare_with_baselines(TEST, PROFILE, found)
    assert compare_with_baselines("other", PROFILE, found) == ()
    save_work(folder, "fourth", COMMIT, {"other": PROFILE})
    assert find_counted(load_work_baselines(folder)) == {TEST, "other"}


def test_no_folder_holds_no_baseline(tmp_path: Path) -> None:
    """Versions without a recording have no baselines."""
    assert load_work_baselines(tmp_path / "key") == ()


def with_versions(**versions: str) -> WorkProfile:
    """Return the profile as other versions count it: with more calls and bytes of libraries."""
    callers = {
        "rows.batch": {"grain.next": 2.0},
        "rows.encode": {"rows.batch": 128.0},
        "grain.next": {"": 9.0},
        "<string>.__init__": {"grain.next": 7.0, "absl.log": 7.0},
        "numpy.pad": {"rows.encode": 128.0},
        "builtins.len": {"rows.encode": 256.0, "rows.batch": 2.0, "numpy.pad": 500.0},
    }
    return make_profile(
        versions={**VERSIONS, **versions},
        counts={
            **PROFILE.counts,
            "calls": {name: sum(calls.values()) for name, calls in callers.items()},
            "allocated_bytes": {**PROFILE.counts["allocated_bytes"], "grain.next": 9e6},
            "sent_bytes": {"": 270_000.0},
        },
        callers=callers,
    )


Record = Callable[..., None]


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """Return a function that records a baseline of some versions, each a day after the last."""
    days = count(1)

    def record(**versions: str) -> None:
        recorded = datetime(2026, 1, next(days), tzinfo=UTC)
        monkeypatch.setattr(work_baselines, "datetime", SimpleNamespace(now=lambda _: recorded))
        profile = make_profile(versions={**VERSIONS, **versions})
        save_work(tmp_path / work_key(profile.versions), "first", COMMIT, {TEST: profile})

    return record


def test_the_most_similar_versions(tmp_path: Path, record: Record) -> None:
    """Without a recording of these versions, most others must be equal, and Python's minor one."""
    record(grain="0.2.17")
    record(grain="0.2.17", jax="0.9.1")
    record(python="3.12.1")
    (tmp_path / KEY).mkdir()
    (found,) = load_nearest(tmp_path, VERSIONS)
    assert found.versions == {**VERSIONS, "grain": "0.2.17"}
    assert load_nearest(tmp_path, {**VERSIONS, "python": "3.13.1"}) == ()
    assert load_nearest(tmp_path / "none", VERSIONS) == ()


def test_the_same_versions_come_first(tmp_path: Path, record: Record) -> None:
    """A later recording with one package more is less similar."""
    record()
    record(pyarrow="26.0.1")
    (found,) = load_nearest(tmp_path, VERSIONS)
    assert found.versions == VERSIONS


def test_a_baseline_without_profiles(tmp_path: Path, record: Record) -> None:
    """It holds no test, and is less similar than any other."""
    save_work(tmp_path / KEY, "empty", COMMIT, {})
    assert compare_with_baselines(TEST, PROFILE, load_nearest(tmp_path, VERSIONS)) == ()
    record(grain="0.2.17")
    (found,) = load_nearest(tmp_path, VERSIONS)
    assert found.versions["grain"] == "0.2.17"


def test_the_last_of_equally_similar_versions(tmp_path: Path, record: Record) -> None:
    """Versions are not compared as text: 0.2.9 is older than 0.2.17."""
    record(grain="0.2.9")
    record(grain="0.2.17")
    (found,) = load_nearest(tmp_path, VERSIONS)
    assert found.versions["grain"] == "0.2.17"


def compare_with_older_grain(folder: Path, then: WorkProfile, now: WorkProfile) -> dict[str, str]:
    """Return the outcome of each kind of work, with another release of Grain."""
    save_work(folder, "first", COMMIT, {TEST: then})
    now = replace(now, versions={**VERSIONS, "grain": "0.2.19"})
    found = compare_with_baselines(TEST, now, load_work_baselines(folder))
    return {each.metric: each.outcome for each in found}


def test_nothing_but_work_of_libraries(folder: Path) -> None:
    """If no function of the user is left, calls are not compared, and do not pass."""
    then = make_profile(counts={"calls": {"grain.next": 9.0}}, callers={"grain.next": {"": 9.0}})
    now = make_profile(counts={"calls": {"grain.next": 90.0}}, callers={"grain.next": {"": 90.0}})
    assert compare_with_older_grain(folder, then, now) == {"calls": Outcome.NOT_COMPARED}


def test_calls_of_libraries_that_differ_between_processes(folder: Path) -> None:
    """They are left out in both versions, also where only one of them differs."""
    callers = {
        "rows.encode": {"rows.batch": 8.0},
        "list.append": {"rows.encode": 1.0, "grain": 9.0},
    }
    then = make_profile(
        counts={"calls": {"rows.encode": 8.0}}, callers=callers,
        dropped={"calls": {"list.append": (9.0, 11.0)}},
    )  # fmt: skip
    now = make_profile(counts={"calls": {"rows.encode": 8.0, "list.append": 10.0}}, callers=callers)
    assert compare_with_older_grain(folder, then, now) == {"calls": Outcome.PASS}


def test_other_versions_may_pack_differently(folder: Path) -> None:
    """Elements, padding and the length of an epoch are not judged; a batch's arrays are."""
    then = make_profile(
        counts={"elements": {"Map": 8.0}, "padding": {"": 10.0}, "batch_bytes": {"x": 64.0}},
        epoch_batches=5,
    )
    now = make_profile(
        counts={"elements": {"Map": 9.0}, "padding": {"": 20.0}, "batch_bytes": {"x": 128.0}},
        epoch_batches=6,
    )
    assert compare_with_older_grain(folder, then, now) == {
        **dict.fromkeys(("elements", "padding", "epoch_batches"), Outcome.NOT_COMPARED),
        "batch_bytes": Outcome.REGRESSED,
    }


def test_other_versions_of_libraries(folder: Path) -> None:
    """More calls and allocations by libraries pass; what only they decide is not compared."""
    save_work(folder, "first", COMMIT, {TEST: PROFILE})
    now = with_versions(grain="0.2.19")
    compared = compare_with_baselines(TEST, now, load_work_baselines(folder))
    assert {found.metric: found.outcome for found in compared} == {
        **dict.fromkeys(("calls", "allocated_bytes", "batch_bytes"), Outcome.PASS),
        "sent_bytes": Outcome.NOT_COMPARED,
    }
    (sent,) = (found for found in compared if found.metric == "sent_bytes")
    assert sent.reason.endswith("the versions differ: grain 0.2.19 instead of 0.2.18")


@pytest.mark.parametrize(
    ("kind", "part", "more"),
    [("calls", "builtins.len", 300.0), ("allocated_bytes", "rows.encode", 9e6)],
)
def test_more_work_of_own_code(folder: Path, kind: str, part: str, more: float) -> None:
    """More calls by the user's functions, and more of their allocations, regress nevertheless."""
    save_work(folder, "first", COMMIT, {TEST: PROFILE})
    now = with_versions(grain="0.2.19")
    if kind == "calls":
        now.callers[part]["rows.encode"] += more  # type: ignore[index]
    now.counts[kind][part] += more  # type: ignore[index]
    compared = compare_with_baselines(TEST, now, load_work_baselines(folder))
    assert [found.metric for found in compared if found.outcome is Outcome.REGRESSED] == [kind]


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (lambda document: document["netpipe"]["profiles"][TEST].update(batches=8), "digest"),
        (lambda document: document["netpipe"]["profiles"][TEST].update(batches=0), "batches"),
        (
            lambda document: document["netpipe"].update(schema="netpipe.work-baseline/2"),
            "schema .*upgrade this one",
        ),
        (lambda document: document.pop("netpipe"), "netpipe"),
        (
            lambda document: document["netpipe"]["profiles"][TEST]["counts"].update(
                calls={"a": -1.0}
            ),
            "calls",
        ),
    ],
)
def test_a_changed_baseline_is_refused(folder: Path, edit: object, field: str) -> None:
    """The error names the file and the field."""
    path = save_work(folder, "first", COMMIT, {TEST: PROFILE})
    document = json.loads(path.read_text())
    edit(document)  # type: ignore[operator]
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=f"0001_first.json: .*{field}"):
        load_work_baselines(folder)


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("0001_other.json", "number must be used by one baseline; found 0001_.* and 0001_"),
        ("second.json", r"second\.json: name must be NNNN_<name>\.json"),
        ("../grain9/0002_second.json", f"versions must be grain9, .* its folder; found {KEY}"),
    ],
    ids=["two of one number", "without a number", "other versions"],
)
def test_a_renamed_baseline_is_refused(folder: Path, to: str, message: str) -> None:
    """Otherwise a run would be compared with another recording, or with none."""
    save_work(folder, "first", COMMIT, {TEST: PROFILE})
    path, moved = save_work(folder, "second", COMMIT, {TEST: PROFILE}), folder / to
    moved.parent.mkdir(exist_ok=True)
    path.rename(moved)
    with pytest.raises(InputError, match=message):
        load_work_baselines(moved.parent.resolve())


def test_the_newest_baseline_decides_on_the_loader(folder: Path) -> None:
    """The step is compared with the newest baseline of its own backend."""
    counts = {**PROFILE.counts, "step_flops": {"": 5.0}}
    now = make_profile(counts=counts, step_backend="cpu")
    save_work(folder, "cpu", COMMIT, {TEST: now})
    on_gpu = make_profile(counts={**counts, "sent_bytes": {"": 1.0}}, step_backend="gpu")
    save_work(folder, "gpu", COMMIT, {TEST: on_gpu})
    save_work(folder, "other", COMMIT, {"another test": now})
    baselines = load_work_baselines(folder)
    compared = {found.metric: found for found in compare_with_baselines(TEST, now, baselines)}
    assert compared["sent_bytes"].outcome is Outcome.REGRESSED
    assert compared["sent_bytes"].baseline.endswith("0002_gpu.json")
    assert compared["step_flops"].outcome is Outcome.PASS
    assert compared["step_flops"].baseline.endswith("0001_cpu.json")
    assert compare_with_baselines("no test", now, baselines) == ()


def test_a_step_of_another_backend_is_not_compared(folder: Path) -> None:
    """If no baseline has the step's backend, the reason says so."""
    counts = {**PROFILE.counts, "step_flops": {"": 5.0}}
    save_work(folder, "gpu", COMMIT, {TEST: make_profile(counts=counts, step_backend="gpu")})
    now = make_profile(counts=counts, step_backend="cpu")
    compared = compare_with_baselines(TEST, now, load_work_baselines(folder))
    assert {found.metric for found in compared if found.outcome is Outcome.NOT_COMPARED} == {
        "step_flops"
    }


def test_a_removed_step_is_not_compared(folder: Path) -> None:
    """An older baseline without a step does not hide that the newest one has a step."""
    counts = {**PROFILE.counts, "step_flops": {"": 5.0}}
    save_work(folder, "without", COMMIT, {TEST: PROFILE})
    save_work(folder, "with", COMMIT, {TEST: make_profile(counts=counts, step_backend="cpu")})
    compared = compare_with_baselines(TEST, PROFILE, load_work_baselines(folder))
    assert [found.metric for found in compared if found.outcome is Outcome.NOT_COMPARED] == [
        "step_flops"
    ]


def test_the_folder_is_no_device(tmp_path: Path) -> None:
    """The list of devices leaves out the baselines of work."""
    (tmp_path / "work" / "key").mkdir(parents=True)
    (tmp_path / "l4-x1").mkdir()
    assert [folder.name for folder in device_folders(tmp_path)] == ["l4-x1"]


def test_a_change_of_a_work_baseline_is_seen(tmp_path: Path) -> None:
    """A new recording of work is reported like one of a device; a damaged one is refused."""
    (tmp_path / "before").mkdir()
    path = save_work(tmp_path / "after" / "work" / KEY, "first", COMMIT, {TEST: PROFILE})
    (change,) = file_changes(tmp_path / "before", tmp_path / "after")
    assert (change.kind, change.file) == ("added", f"work/{KEY}/0001_first.json")
    path.write_text("{half")
    with pytest.raises(InputError, match=r"0001_first\.json: file must be JSON"):
        list(file_changes(tmp_path / "before", tmp_path / "after"))
