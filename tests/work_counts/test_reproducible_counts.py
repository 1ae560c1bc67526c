"""Counts of work in two processes."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netpipe.errors import MisuseError, SessionError
from netpipe.jobs.parent import CHILD_COMMAND, ProcessEnvironment
from netpipe.jobs.targets import Factories, name_targets
from netpipe.results.fields import parse
from netpipe.results.work_profile import WorkProfile
from netpipe.work_counts import reproducible_counts
from netpipe.work_counts.reproducible_counts import WorkRequest, count_work
from netpipe.work_counts.work_job import count_factories
from tests.work_counts import work_targets
from tests.work_profiles import PROFILE

FILE = work_targets.__file__
ONE = ("0",)  # for tests of what each process counts


def count(
    loader: str, step: str | None = None, seeds: Sequence[str] = ("0", "1"), **settings: Any
) -> WorkProfile:
    """Count the work of a loader and a step in `work_targets`, in a process for each hash seed."""
    targets = name_targets(loader=f"{FILE}:{loader}", step=step and f"{FILE}:{step}")
    request = WorkRequest(**{"targets": targets, "batches": 4, **settings})
    return count_work(CHILD_COMMAND, request, hash_seeds=seeds)


def count_here(folder: Path, **settings: Any) -> WorkProfile:
    """Count one batch of `work_targets.loader` and its step in the process of the test."""
    factories = Factories(work_targets.loader, work_targets.step)
    request = WorkRequest(batches=1, result=str(folder / "result.json"), **settings)
    counted = count_factories(request, factories, ExitStack())["work"]
    return parse(counted, WorkProfile, "work")


def test_a_loader_and_a_step_are_counted_alike_twice() -> None:
    """All counts of a predictable loader and step are reproducible."""
    profile = count("loader", "step")
    assert not profile.dropped
    assert set(profile.not_counted) == {"padding"}
    assert profile.batches == 4
    assert {"calls", "allocations", "allocated_bytes", "elements", "batch_bytes", "step_flops"} <= {
        *profile.counts
    }
    assert "grain" in profile.versions
    assert not list_own_parts(profile)
    assert profile.counts["calls"]["work_targets.stack"] == 1
    assert profile.callers["work_targets.double"]


def list_own_parts(profile: WorkProfile) -> list[str]:
    """Return the functions of the harness and its own dependencies among the counts."""
    return [
        part
        for kind in ("calls", "allocations", "allocated_bytes")
        for part in profile.counts.get(kind, {})
        if part.startswith(("netpipe", "sys.setprofile", "<string>", "psutil", "_Wait"))
    ]


def test_the_harness_counts_nothing_of_its_own() -> None:
    """The watchdog and the loop of the harness do not appear in the counts."""
    profile = count("list_of_batches", seeds=ONE)
    assert not list_own_parts(profile)
    assert profile.counts.get("calls", {}) == {}
    assert profile.counts["read_bytes"][""] < 16


def test_what_depends_on_the_hash_seed_is_dropped() -> None:
    """Calls whose number depends on a hash are reported and dropped."""
    profile = count("unpredictable_loader")
    assert "list.append" in profile.dropped["calls"]
    assert "list.append" not in profile.counts["calls"]
    assert profile.counts["calls"]["work_targets.stack"] == 1


def test_both_processes_count_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process waits for the other, so neither would end if they ran in sequence."""
    monkeypatch.setenv("MEETING_PLACE", str(tmp_path))
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert count("list_made_by_two", batches=1).arrays


@pytest.mark.parametrize(
    ("platforms", "accelerator", "most"),
    [("cuda", "auto", 1), ("cpu", "auto", 2), (None, "emulated:30ms", 2)],
)
def test_two_processes_do_not_share_an_accelerator(
    monkeypatch: pytest.MonkeyPatch, platforms: str | None, accelerator: str, most: int
) -> None:
    """Each process takes most of a GPU's memory, so they run together only on the CPU."""
    running, seen = list[str](), list[int]()

    @contextmanager
    def open_session(
        _: object, __: object, place: ProcessEnvironment, ___: object
    ) -> Iterator[Any]:
        running.append(place.variables["PYTHONHASHSEED"])
        seen.append(len(running))
        yield SimpleNamespace(result=PROFILE.to_document)
        running.pop()

    monkeypatch.setattr(reproducible_counts, "open_session", open_session)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    if platforms:
        monkeypatch.setenv("JAX_PLATFORMS", platforms)
    count_work([], WorkRequest(accelerator=accelerator))
    assert max(seen) == most
    assert len(seen) == 2


def test_an_emulated_accelerator_takes_the_place_of_the_step(tmp_path: Path) -> None:
    """The user's step, which may take minutes on a CPU, does not run."""
    profile = count_here(tmp_path, accelerator="emulated:30ms")
    assert not profile.step_backend
    assert not any(kind.startswith("step_") for kind in profile.counts)


def test_a_failing_loader_is_an_error() -> None:
    """The message has the loader's own error."""
    with pytest.raises(SessionError, match="the disk is gone"):
        count("failing_loader", seeds=ONE)


def test_one_batch_is_enough_for_a_step(tmp_path: Path) -> None:
    """A step needs two batches, which may be the same one."""
    profile = count_here(tmp_path)
    assert profile.counts["step_kept_state_bytes"] == {"": 0.0}


def test_no_batches_are_refused() -> None:
    """A count over zero batches is refused."""
    with pytest.raises(MisuseError, match="number of batches must be above 0; found 0"):
        WorkRequest(batches=0)
