"""pytest collects the same tests at any time, in any folder and in any process.

pytest-xdist compares what its workers collect, and a baseline is found by the id of its test.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("tests", "perf_tests")
NEVER_COPIED = (
    *(".git", ".venv", ".tox", ".hypothesis", ".*_cache", "*.egg-info"),
    # Compiled modules save half of the time. Those with another suffix are being written.
    "*.pyc.*",
    *("build", "dist", "venv", "env"),
)

# Assertions are rewritten as in the run of this test, which has compiled the modules.
COLLECT = """
import gc, sys, time
gc.disable()
for name, per_s in (("time", 1), ("time_ns", 10**9)):
    def shifted(now=getattr(time, name), by=per_s * int(sys.argv[1])):
        return now() + by
    setattr(time, name, shifted)
import pytest
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
                      *sys.argv[2:]]))
"""


def collect(
    root: Path, temporary: Path, *arguments: str, shift_s: int = 0, hash_seed: int = 0
) -> list[str]:
    """Return the ids that a fresh process collects, in their order."""
    temporary.mkdir()
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    environment |= {"PYTHONHASHSEED": str(hash_seed), "TMPDIR": str(temporary)}
    done = subprocess.run(
        [sys.executable, "-c", COLLECT, str(shift_s), *arguments],
        cwd=root, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [line for line in done.stdout.splitlines() if "::" in line]


def collect_twice(root: Path, tmp_path: Path, *arguments: str) -> tuple[list[str], list[str]]:
    """Collect in two processes that differ in clock, hash seed, folder and pid."""
    copy = tmp_path / "another folder" / "root"
    shutil.copytree(root, copy, ignore=shutil.ignore_patterns(*NEVER_COPIED))
    with ThreadPoolExecutor(2) as both:
        one = both.submit(collect, root, tmp_path / "a", *arguments)
        other = both.submit(
            collect, copy, tmp_path / "b", *arguments, shift_s=123_456_789, hash_seed=1
        )
        return one.result(), other.result()


def test_every_collection_gives_the_same_ids(tmp_path: Path) -> None:
    """Clock, hash seed, folder and process change neither a test's id nor the order."""
    one, other = collect_twice(ROOT, tmp_path, *FOLDERS)
    assert [pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]] == []
    assert len(one) == len(other) > 0
