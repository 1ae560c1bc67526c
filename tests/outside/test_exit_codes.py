"""The exit code of each command: wrong usage, bad input, success and failure."""

import shlex
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.command import Netpipe
from tests.outside import doors
from tests.outside.golden import ROOT, check_lines

MEASURED: Final = ROOT / "tests" / "data" / "measurements"
# With a note where a known defect is frozen.
CALLS: Final = {
    line.partition("#")[0].strip(): line.partition("#")[2]
    for line in """
    --version
    nonsense
    init --no-run missing
    init --no-run .
    generate
    generate --out data --profile other
    generate --out data --probes 30
    generate --out data --probes -1
    inspect
    inspect missing
    inspect data
    inspect damaged.json
    prepare
    prepare missing --out out
    prepare data/parquet --out out --shards 20000
    prepare data/parquet --out out --workers 1 --shards 1
    throughput --rounds 0
    throughput --loader no-target
    measure
    measure KEY=1 --loader pipeline.py:loader
    measure --loader no-target
    measure --loader pipeline.py:loader --accelerator emulated:x
    measure --loader pipeline.py:loader --storage nonsense
    measure --loader pipeline.py:loader --budget 0
    measure --loader pipeline.py:loader --html missing/page.html
    measure --loader pipeline.py:loader
    diagnose
    diagnose --loader no-target
    diagnose --loader pipeline.py:loader --budget -1
    diagnose --loader pipeline.py:loader
    lint
    lint no-target
    lint pipeline.py:loader --intent other
    lint pipeline.py:loader
    work
    work no-target
    work pipeline.py:loader --batches 0
    work pipeline.py:loader --against nonsense
    work pipeline.py:loader
    resume
    resume no-target
    resume pipeline.py:loader --batches 1
    resume pipeline.py:loader
    hosts
    hosts healthy.json
    hosts healthy.json healthy.json
    hosts healthy.json copy.json  # issue 37, item 1: copies of one document are accepted
    hosts waits.json waits-too.json  # issue 37, item 1
    hosts healthy.json waits.json
    hosts healthy.json damaged.json
    hosts healthy.json missing.json
    report
    report healthy.json
    report damaged.json --html page.html
    report missing.json --html page.html
    report healthy.json waits.json --html page.html
    devices --nonsense
    doctor --nonsense
    baseline record
    baseline record first --sessions many
    baseline list
    baseline list --baselines missing
    baseline list --baselines damaged
    baseline show missing.json
    baseline show damaged.json
    baseline show baselines/cpu-intel-xeon-2/0002_packed.json
    baseline diff baselines/cpu-intel-xeon-2/0002_packed.json
    baseline diff baselines/cpu-intel-xeon-2/0001_first.json baselines/cpu-intel-xeon-2/0002_packed.json
    baseline prune --keep 0
    baseline prune
    baseline prune --keep 1 --yes
    ab
    ab nonsense
    """.strip().splitlines()
}


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with results, baselines, and a pipeline whose sessions are recorded."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "baselines", "baselines")
    shutil.copy(MEASURED / "fine-with-little-to-spare.json", "healthy.json")
    shutil.copy("healthy.json", "copy.json")
    shutil.copy(MEASURED / "slow-by-far.json", "waits.json")
    shutil.copy("waits.json", "waits-too.json")
    Path("damaged.json").write_text("{")
    shutil.copytree("baselines/cpu-intel-xeon-2", "damaged/cpu-intel-xeon-2")
    Path("damaged/cpu-intel-xeon-2/0002_packed.json").write_text("{")
    Path("pipeline.py").write_text("def loader():\n    return iter(())\n")
    doors.replay_sessions(monkeypatch, MEASURED / "slow-by-far.json")


@pytest.mark.usefixtures("_folder")
def test_the_exit_codes_stay(netpipe: Netpipe) -> None:
    """Each of these calls, one after the other in one folder, ends with the code that it had."""
    ended = {call: netpipe(*shlex.split(call)) for call in CALLS}
    crashed = {call: each.exception for call, each in ended.items() if each.exception}
    assert {call: each for call, each in crashed.items() if not isinstance(each, SystemExit)} == {}
    noted = {call: f"  # known defect:{note}" if note else "" for call, note in CALLS.items()}
    check_lines(
        "exit_codes",
        (f"{each.exit_code} netpipe {call}{noted[call]}" for call, each in ended.items()),
    )
