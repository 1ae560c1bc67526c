"""The exit code of each command: wrong usage, bad input, success and failure."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.command import Netpipe
from tests.outside import doors
from tests.outside.golden import HERE, ROOT, check_lines

MEASURED: Final = ROOT / "tests" / "results" / "measurements"
# Each line is a code and its call; a comment marks a known defect. Add a call with any code.
CALLS: Final = (HERE / "exit_codes.txt").read_text("utf-8").splitlines()


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with results, baselines, and a pipeline whose sessions are recorded."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "baselines", "baselines")
    shutil.copy(MEASURED / "fine-with-little-to-spare.json", "healthy.json")
    shutil.copy("baselines/cpu-intel-xeon-2/0001_first.json", "first.json")
    shutil.copy("healthy.json", "copy.json")
    shutil.copy(MEASURED / "slow-by-far.json", "waits.json")
    # `netpipe hosts` refuses equal measurements as those of two hosts.
    other_host = json.loads(Path("waits.json").read_text()) | {"elapsed_s": 1.0}
    Path("waits-too.json").write_text(json.dumps(other_host))
    Path("damaged.json").write_text("{")
    shutil.copytree("baselines/cpu-intel-xeon-2", "damaged/cpu-intel-xeon-2")
    Path("damaged/cpu-intel-xeon-2/0002_packed.json").write_text("{")
    doors.write_training_logs(Path.cwd())
    Path("pipeline.py").write_text("def loader():\n    return iter(())\n")
    doors.replay_sessions(monkeypatch, MEASURED / "slow-by-far.json")


@pytest.mark.usefixtures("_folder")
def test_the_exit_codes_stay(netpipe: Netpipe) -> None:
    """Each call, one after the other in one folder, keeps its exit code."""
    lines = []
    for line in CALLS:
        call, mark, note = line.partition(" netpipe ")[2].partition("  #")
        ended = netpipe(*shlex.split(call))
        assert isinstance(ended.exception, SystemExit | None), call
        lines.append(f"{ended.exit_code} netpipe {call}{mark}{note}")
    check_lines("exit_codes", lines)
