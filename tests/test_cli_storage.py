"""`--storage`: a loader is measured in a storage stand-in, and marked as derived."""

from pathlib import Path
from typing import Any

import pytest

from netpipe.cli.measure import print_verdicts
from netpipe.jobs import parent
from netpipe.jobs.targets import Target
from tests.command import Netpipe, document
from tests.measurements import EMULATED, make_measurement
from tests.sessions_here import sessions_here as sessions_here

STORAGE = "object-store,latency=20ms,tail=20ms"
LOADER = """
import grain
import numpy as np

class Rows:
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return {"x": np.full((4, 8), index, np.int32)}

def batches():
    return grain.MapDataset.source(Rows()).to_iter_dataset(grain.ReadOptions(2, 4))

def stream():
    while True:
        yield {"x": np.zeros((4, 8), np.int32)}
"""


@pytest.fixture
def loaders(tmp_path: Path) -> str:
    """Return a file whose functions make loaders."""
    path = tmp_path / "loaders_in_storage.py"
    path.write_text(LOADER)
    return str(path)


def test_a_loader_is_measured_in_a_storage(netpipe: Netpipe, loaders: str, tmp_path: Path) -> None:
    """Two threads wait 20 ms for each batch, and the result is marked as derived."""
    page = tmp_path / "page.html"
    result = netpipe(
        "measure", "--loader", f"{loaders}:batches", "--accelerator", "emulated:2ms",
        "--storage", STORAGE, "--budget", 2, "--json", "--html", page,
    )  # fmt: skip
    found = document(result, "measurement.1.json")
    assert found["storage"] == STORAGE
    assert found["load_s_per_batch"]["median"] > 0.009
    text = page.read_text(encoding="utf-8")
    assert f"emulated-2ms in {STORAGE} (derived)" in text
    assert f"from {STORAGE}" in text


@pytest.mark.usefixtures("sessions_here")
def test_a_loader_that_cannot_be_placed_is_refused(netpipe: Netpipe, loaders: str) -> None:
    """A loader without a stand-in is refused in one line with the call to add, and exit code 2."""
    result = netpipe(
        "measure", "--loader", f"{loaders}:stream", "--accelerator", "emulated:2ms",
        "--storage", "network-disk", "--quiet",
    )  # fmt: skip
    assert result.exit_code == 2
    last = result.stderr.strip().splitlines()[-1]
    assert "storage network-disk: the loader must be a Grain pipeline" in last
    assert "netpipe.storage.stand_in(source)" in last


@pytest.mark.parametrize("command", ["measure", "diagnose"])
def test_an_unknown_storage_is_refused_before_anything_starts(
    netpipe: Netpipe, command: str
) -> None:
    """The message lists the known storages."""
    result = netpipe(command, "--loader", "a:b", "--storage", "bucket")
    assert result.exit_code == 2
    assert "storage must be one of local-nvme, network-disk" in result.stderr


def test_the_loader_of_maxtext_is_placed(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The configuration names a loader as any other target does."""
    requests: list[Any] = []

    def measured(_: Any, request: Any, **__: Any) -> Any:
        requests.append(request)
        return make_measurement(device=EMULATED, storage="network-disk")

    monkeypatch.setattr(parent, "run_measurement", measured)
    config = tmp_path / "my.yml"
    config.write_text("")
    netpipe(
        "measure", "--maxtext", config, "--storage", "network-disk",
        "--accelerator", "emulated:2ms", "steps=3",
    )  # fmt: skip
    words = (str(config), "steps=3")
    placed = Target("netpipe.maxtext", "loader", words, storage="network-disk")
    assert [request.targets for request in requests] == [{"loader": placed}]


def test_the_terminal_says_what_is_derived(capsys: pytest.CaptureFixture[str]) -> None:
    """The mark is in the table row, before the verdict and on its own line."""
    print_verdicts([make_measurement(device=EMULATED, storage="network-disk")])
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("emulated-30ms in network-disk (derived): ") for line in lines)
    assert "  S0 is derived: emulated:30ms" in lines
    assert "  L and R are derived: a stand-in for network-disk" in lines
    assert any("in network-disk" in line for line in lines[:6])
