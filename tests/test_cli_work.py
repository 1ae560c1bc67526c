"""`netpipe work`: its output and its exit codes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netpipe import other_version, worktrees
from netpipe.jobs.parent import ProcessEnvironment
from netpipe.judge import judge
from netpipe.results.work_profile import WorkProfile
from netpipe.work_counts import reproducible_counts
from netpipe.work_counts.reproducible_counts import WorkRequest
from tests.command import Netpipe, document
from tests.repository import commit_files, git
from tests.work_profiles import PROFILE, make_profile, with_calls, with_count

TARGET = "loaders.py:loader"
MORE = with_calls({"rows.batch": {"": 1.0}, "rows.encode": {"rows.batch": 2_000.0}})

LOADERS = """
import numpy as np

def encode(row):
    return [int(value) for value in row]

def loader():
    while True:
        rows = [np.arange(8) for _ in range(4)]
        yield np.array([encode(row) for row in rows])
"""


@pytest.fixture
def profiles(monkeypatch: pytest.MonkeyPatch) -> list[WorkProfile]:
    """Return the profiles of the next counts, in order: the base is counted first."""
    found: list[WorkProfile] = []

    def count(
        _: object, request: WorkRequest, __: object = None, progress: object = None,
        hash_seeds: object = (),  # noqa: ARG001  # not used
    ) -> WorkProfile:  # fmt: skip
        assert progress is None or callable(progress)
        assert request.batches == 16
        return found.pop(0)

    @contextmanager
    def open_nothing(*_: object) -> Iterator[Any]:
        yield SimpleNamespace(
            checkout=SimpleNamespace(commit=SimpleNamespace(label="HEAD~1")),
            python="python",
            request_here=lambda request: request,
            request_there=lambda request: request,
            move_paths=lambda words, _: words,
            place=lambda _: ProcessEnvironment(),
        )

    for module in (reproducible_counts, judge):
        monkeypatch.setattr(module, "count_work", count)
    monkeypatch.setattr(other_version, "open_version", open_nothing)
    monkeypatch.setattr(worktrees, "find_commit", lambda *_: None)
    return found


def test_work_is_printed(netpipe: Netpipe, profiles: list[WorkProfile]) -> None:
    """The output has every kind with its total and largest parts, and a batch's arrays."""
    profiles.append(replace(PROFILE, tasks_beside=2))
    result = netpipe("work", TARGET)
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert {"calls 387 calls", "calls builtins.len 258 calls", "sent_bytes 260 kB"} <= {*lines}
    assert "batches 2 to 17 in one thread" in " ".join(lines)
    assert "not the time inside C, nor 2 other threads and processes" in " ".join(lines)
    assert "tokens: int32[128,1024]" in result.stdout


def test_a_loader_may_be_slow_in_one_thread(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader's workers are gone while its work is counted."""
    limits: list[float] = []

    def count(_: object, request: WorkRequest, **__: object) -> WorkProfile:
        limits.append(request.batch_limit_s)
        return PROFILE

    monkeypatch.setattr(reproducible_counts, "count_work", count)
    assert netpipe("work", TARGET, "--batch-limit", 90).exit_code == 0
    assert limits == [90.0]


def test_what_was_not_counted_is_printed(netpipe: Netpipe, profiles: list[WorkProfile]) -> None:
    """The output names uncounted kinds and counts that processes disagreed on."""
    profiles.append(
        make_profile(
            dropped={"calls": {"rows.shuffle": (1.0, 2.0)}}, not_counted={"read_bytes": "forbidden"}
        )
    )
    result = netpipe("work", TARGET)
    assert "read_bytes: not counted: forbidden" in result.stdout
    dropped = "calls: differs between processes, dropped: rows.shuffle (1 call to 2 calls)"
    assert dropped in result.stdout


@pytest.mark.parametrize(
    ("then", "exit_code", "outcome"),
    [
        (PROFILE, 0, "PASS"),
        (MORE, 0, "IMPROVED"),
        (with_count("sent_bytes", total=2.0), 1, "REGRESSED"),
        (make_profile(fingerprint="other data"), 3, "NOT_COMPARED"),
        (make_profile(dropped={"calls": {"rows.shuffle": (8.0, 20.0)}}), 3, "NOT_COMPARED"),
    ],
)
def test_a_comparison_decides_the_exit_code(
    netpipe: Netpipe, profiles: list[WorkProfile], then: WorkProfile, exit_code: int, outcome: str
) -> None:
    """The exit code is 1 for more work, and 3 if something could not be compared."""
    # The last of them would not be comparable if more processes did not agree with it.
    profiles += [then, PROFILE, PROFILE, make_profile(dropped={"calls": {"rows.shuffle": (0, 1)}})]
    result = netpipe("work", TARGET, "--against", "HEAD~1", "--json")
    assert result.exit_code == exit_code
    found = document(result, "work.1.json")
    assert found["against"] == "HEAD~1"
    assert outcome in {comparison["outcome"] for comparison in found["comparisons"]}


def test_a_regression_names_its_cause(netpipe: Netpipe, profiles: list[WorkProfile]) -> None:
    """The cause below the table is the function called more often."""
    profiles += [PROFILE, MORE]
    result = netpipe("work", TARGET, "--against", "HEAD~1")
    assert result.exit_code == 1
    assert "rows.encode: 2000 calls per batch instead of 128 calls" in result.stdout


def test_a_pass_says_what_was_seen(netpipe: Netpipe, profiles: list[WorkProfile]) -> None:
    """The last line has the batches and the code that were counted; a rise of CPU time is named."""
    profiles += [make_profile(cpu_s_per_batch=each) for each in (0.1, 0.3)]
    result = netpipe("work", TARGET, "--against", "HEAD~1")
    assert result.exit_code == 0
    assert (
        "PASS against HEAD~1: calls: 387 calls per batch, as before; but a batch took 300 ms"
        in (result.stdout)
    )
    assert result.stdout.splitlines()[-1] == (
        "counted: batches 2 to 17 in one thread; Python and C calls, not the time inside C; "
        "an epoch has at least 64 batches"
    )


def test_two_versions_of_a_file_are_compared(
    netpipe: Netpipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The committed file is counted in its own checkout; one more call per row is found."""
    once = partial(reproducible_counts.count_work, hash_seeds=("0",))
    monkeypatch.setattr(judge, "count_work", once)
    commit_files(tmp_path, {"loaders.py": LOADERS})
    (tmp_path / "loaders.py").write_text(LOADERS.replace("[encode(row)", "[len(row) * encode(row)"))
    monkeypatch.chdir(tmp_path)
    result = netpipe("work", TARGET, "--against", "HEAD", "--batches", "2", "--json", "--quiet")
    assert (result.exit_code, result.stderr) == (1, "")
    found = document(result, "work.1.json")
    assert found["batches"] == 2
    (calls,) = [row for row in found["comparisons"] if row["kind"] == "calls"]
    assert "builtins.len: 4 calls per batch instead of 0 calls" in calls["reason"]
    assert git(tmp_path, "worktree", "list").count("\n") == 0


def test_a_file_outside_the_repository_is_refused(
    netpipe: Netpipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both versions would run it, so nothing is counted."""
    monkeypatch.setattr(judge, "count_work", lambda *_, **__: pytest.fail("counted"))
    project = tmp_path / "project"
    commit_files(project, {"README.md": "A project.\n"})
    (tmp_path / "loaders.py").write_text(LOADERS)
    monkeypatch.chdir(project)
    result = netpipe("work", "../loaders.py:loader", "--against", "HEAD")
    assert result.exit_code == 2
    assert "file must be in" in result.output


def test_a_target_that_is_none_is_refused(netpipe: Netpipe) -> None:
    """An invalid target is refused before a process starts."""
    result = netpipe("work", "loader")
    assert result.exit_code == 2
    assert "must be package.module:name or path/to/file.py:name" in result.output
