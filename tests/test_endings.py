"""Every measurement ends in time, with a reason, and leaves nothing behind."""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import current_process, shared_memory
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.command import Netpipe
from tests.ending_pipelines import PIPELINES
from tests.sessions_here import sessions_here as sessions_here

FINE, FAILED, MISUSE, INCONCLUSIVE = 0, 1, 2, 3
LIMIT_S = 120.0  # for one command on the slowest machine; tests only assert that it ends


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, its standard output, and its standard error."""

    code: int
    out: str
    log: str


@pytest.fixture
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of loaders, steps and loops, beside a folder for temporary files."""
    folder = tmp_path_factory.mktemp("e")  # short, for sockets
    path = folder / "pipelines_that_end.py"
    path.write_text(PIPELINES.replace("MARK", mark_of(folder)))
    (folder / "tmp").mkdir()
    return path


def measure(pipelines: Path, loader: str, *words: str) -> Ended:
    """Run `netpipe measure`, and fail if a process or file of it is left."""
    temporary = pipelines.parent / "tmp"
    done = subprocess.run(
        [sys.executable, "-m", "netpipe", *words_of(pipelines, loader, *words)],
        env={**os.environ, "TMPDIR": str(temporary), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert list(temporary.iterdir()) == []
    # A killed process ends once the kernel has scheduled it.
    assert psutil.wait_procs(followers_of(temporary), timeout=30)[1] == []
    left = [
        path.name for path in Path("/dev/shm").iterdir() if mark_of(pipelines.parent) in path.name
    ]
    assert left == []
    assert "Traceback" not in done.stderr
    return Ended(done.returncode, done.stdout, done.stderr)


def words_of(pipelines: Path, loader: str, *words: str) -> list[str]:
    """Return the words that measure a loader."""
    device = [] if "--step" in words else ["--accelerator", "emulated:5ms"]
    target = f"{pipelines}:{loader}"
    return ["measure", "--loader", target, *device, "--budget", "1", "--json", *words]


@pytest.fixture
def measure_here(
    netpipe: Netpipe,
    pipelines: Path,
    sessions_here: object,  # noqa: ARG001  # not called from here
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Ended]:
    """Return a function that measures in this process, where nothing has to be ended."""
    # The pipelines change these.
    monkeypatch.setattr(shared_memory, "_SHM_NAME_PREFIX", "/psm_")
    monkeypatch.setitem(current_process()._config, "semprefix", "/mp")  # type: ignore[attr-defined]

    def measure_loader(loader: str, *words: str) -> Ended:
        done = netpipe(*words_of(pipelines, loader, *words))
        return Ended(done.exit_code, done.stdout, done.stderr)

    return measure_loader


def mark_of(folder: Path) -> str:
    """Return the prefix of the names that a session of this folder uses in /dev/shm."""
    return f"e{hashlib.sha256(str(folder).encode()).hexdigest()[:7]}"


def followers_of(temporary: Path) -> list[psutil.Process]:
    """Return the live processes whose temporary folder is, or was, below ours."""
    found = []
    for process in psutil.process_iter():
        try:
            folder = process.environ().get("TMPDIR", "")
            if folder.startswith(str(temporary)) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def kind_of(ended: Ended) -> Any:
    """Return the kind of the verdict that was printed."""
    return json.loads(ended.out)["verdict"]["kind"]


def test_a_hung_loader_is_ended(pipelines: Path) -> None:
    """The message has the number of batches, and the line that waits."""
    ended = measure(pipelines, "hanging", "--batch-limit", "1")
    assert ended.code == MISUSE
    assert "1 s after 57 batches" in ended.log
    assert "in hanging" in ended.log
    assert ended.out == ""


def test_a_hung_worker_is_named(pipelines: Path) -> None:
    """The message has every worker process with its activity; all of them are ended."""
    ended = measure(pipelines, "hanging_worker", "--batch-limit", "2")
    assert ended.code == MISUSE
    assert "2 s after 57 batches" in ended.log
    assert len(re.findall(r"process \d+: [a-z-]+, [\d.]+ CPU seconds", ended.log)) == 2


def test_a_killed_worker_is_named(pipelines: Path) -> None:
    """The message has its id, its signal and the number of batches before."""
    ended = measure(pipelines, "killed_worker")
    assert ended.code == MISUSE
    assert re.search(
        r"after 5\d batches: .*(process \d+ .*SIGKILL|RuntimeError: .*exit code -9)",
        ended.log,
    )


@pytest.mark.parametrize(("loader", "place"), [("failing", "failing"), ("failing_worker", "_fail")])
def test_a_loader_that_raises_is_quoted(
    measure_here: Callable[..., Ended], pipelines: Path, loader: str, place: str
) -> None:
    """An exception here or in a worker, which must end, is quoted with the user's line only."""
    ended = measure_here(loader) if loader == "failing" else measure(pipelines, loader)
    lines = ended.log.splitlines()
    headline = r"netpipe: .* 57 batches: ValueError: bad record"
    first = next(n for n, line in enumerate(lines) if re.fullmatch(headline, line))
    assert ended.code == MISUSE
    assert lines[-1].strip() == 'raise ValueError("bad record")'
    assert lines[-2].endswith(f"in {place}")
    assert len(lines) - first < 10


def test_a_thread_of_the_loader_that_raises_is_quoted(pipelines: Path) -> None:
    """The message has the exception that ended the thread, and its place."""
    ended = measure(pipelines, "left_by_its_thread", "--batch-limit", "1")
    assert ended.code == MISUSE
    assert "1 s after 57 batches" in ended.log
    assert "reader ended: ValueError" in ended.log
    assert "in failing\n" in ended.log


def test_a_process_that_leaves_its_session_is_ended(pipelines: Path) -> None:
    """`setsid` does not hide what a loader started."""
    ended = measure(pipelines, "escaping", "--batch-limit", "1")
    assert "after 3 batches" in ended.log


def test_a_manager_goes_too(pipelines: Path) -> None:
    """A loader's manager process is ended too, and leaves no folder."""
    ended = measure(pipelines, "managing", "--batch-limit", "1")
    assert "after 3 batches" in ended.log


def test_an_empty_loader_is_misuse(measure_here: Callable[..., Ended]) -> None:
    """The error is one line."""
    ended = measure_here("empty")
    assert ended.code == MISUSE
    assert ended.log.splitlines()[-1].startswith("netpipe: loader() gave no batch")


def test_a_loop_that_exits_is_quoted(measure_here: Callable[..., Ended], pipelines: Path) -> None:
    """`sys.exit` in a loop ends the measurement with its words and its line."""
    ended = measure_here("endless", "--loop", f"{pipelines}:exiting_loop")
    assert ended.code == MISUSE
    assert "SystemExit: that was" in ended.log
    assert "in exiting_loop" in ended.log


def test_a_loader_that_is_too_short_is_misuse(measure_here: Callable[..., Ended]) -> None:
    """The message has the number of batches before a loader ended for good."""
    ended = measure_here("only_few")
    assert ended.code == MISUSE
    assert "ended after 20 batches" in ended.log


@pytest.mark.parametrize("loader", ["torch_style", "main_thread_only", "old_style", "only_once"])
def test_every_kind_of_loader_is_measured(measure_here: Callable[..., Ended], loader: str) -> None:
    """A torch-style, an endless main-thread, an old-style, and a finite loader are measured."""
    ended = measure_here(loader)
    assert ended.code in (FINE, FAILED, INCONCLUSIVE), ended.log
    assert json.loads(ended.out)["batch_bytes"] > 0


def test_a_loss_that_is_no_number_is_inconclusive(
    measure_here: Callable[..., Ended], pipelines: Path
) -> None:
    """The verdict on a step that computes NaN mentions it."""
    ended = measure_here("endless", "--step", f"{pipelines}:nan_step")
    assert ended.code == INCONCLUSIVE, ended.log
    assert kind_of(ended) == "inconclusive"
    assert "nan" in json.dumps(json.loads(ended.out)["verdict"]).lower()


def test_a_step_that_compiles_every_time_is_recompiling(
    measure_here: Callable[..., Ended], pipelines: Path
) -> None:
    """The warm-up ends although each step compiles, and the verdict names it."""
    ended = measure_here("endless", "--step", f"{pipelines}:recompiling_step")
    assert ended.code == FAILED, ended.log
    assert kind_of(ended) == "recompiling"
