"""Find the device in a child process, refuse a wrong one, and report it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

import netpipe
from netpipe.device.detection import devices_document, find_device, local_device, require_device
from netpipe.device.host import this_host
from netpipe.errors import HarnessError, MisuseError, NetpipeError
from netpipe.results.measurement import Device, Host

SCHEMA = Path(netpipe.__file__).parent / "schemas" / "devices.1.json"
H200 = Device("h200-x1", "NVIDIA H200", "gpu", 1)
H200S = Device("h200-x8", "NVIDIA H200", "gpu", 8)
GB200 = Device("gb200-x1", "NVIDIA GB200", "gpu", 1)
LAPTOP = Device("cpu-intel-xeon-2", "cpu", "cpu", 1)
UNKNOWN = Device("geforce-rtx-4090-x1", "NVIDIA GeForce RTX 4090", "gpu", 1)


def child(source: str) -> tuple[str, ...]:
    """Return the command of a child that runs Python code instead of asking jax."""
    return (sys.executable, "-c", source)


def saying(answer: str) -> tuple[str, ...]:
    """Return the command of a child that prints an answer."""
    return child(f"print({answer!r})")


def test_the_device_is_found_without_a_backend_here() -> None:
    """Finding the device does not import jax here, and the answer has the CPU's cores."""
    source = (
        "import sys; from netpipe.device.detection import find_device; found = find_device();"
        "print(found.key, found.platform, 'jax' in sys.modules)"
    )
    answer = subprocess.run(child(source), capture_output=True, check=True, text=True).stdout
    key, platform, has_jax = answer.split()
    assert key.startswith("cpu-")
    assert key.endswith(f"-{this_host().cores}")
    assert (platform, has_jax) == ("cpu", "False")


def test_the_device_of_this_process_is_the_one_found() -> None:
    """A process that uses jax describes the device in the same way as the child."""
    assert local_device() == find_device()


def test_the_devices_of_a_step_are_described_not_the_first_of_jax() -> None:
    """A step that runs on another device than jax's first one has that device's key."""
    used = [SimpleNamespace(platform="gpu", device_kind="NVIDIA H200")] * 2
    assert local_device(used) == Device("h200-x2", "NVIDIA H200", "gpu", 2)


def test_the_last_line_of_the_child_is_the_answer() -> None:
    """Output that a plugin prints before the answer is ignored."""
    answer = '{"platform": "gpu", "kind": "NVIDIA A100-SXM4-80GB", "count": 2}'
    found = find_device(command=saying(f"welcome\n{answer}"))
    assert found == Device("a100-sxm-80gb-x2", "NVIDIA A100-SXM4-80GB", "gpu", 2)


def test_the_child_takes_no_memory_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child queries the accelerator without preallocating its memory."""
    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE", raising=False)
    source = (
        "import json, os; print(json.dumps({'platform': 'gpu', 'count': 1, "
        "'kind': os.environ['XLA_PYTHON_CLIENT_PREALLOCATE']}))"
    )
    assert find_device(command=child(source)).kind == "false"


@pytest.mark.parametrize("answer", ["", "hello", "[1]", "3", '{"platform": "gpu"}'])
def test_another_answer_is_an_error(answer: str) -> None:
    """The error quotes an unexpected answer."""
    with pytest.raises(HarnessError, match="found the answer"):
        find_device(command=saying(answer))


def test_a_failing_child_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the last line of jax's error."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    with pytest.raises(HarnessError, match="no GPU here with JAX_PLATFORMS cpu"):
        find_device(command=child("import sys; sys.exit('long story\\nno GPU here')"))
    not_text = "import os; os.write(2, b'no \\xff here'); raise SystemExit(1)"
    with pytest.raises(HarnessError, match="no \N{REPLACEMENT CHARACTER} here"):
        find_device(command=child(not_text))


def test_a_silent_failure_is_named_by_its_exit_code() -> None:
    """A child that dies silently is reported by its exit code."""
    with pytest.raises(HarnessError, match="found exit code 7"):
        find_device(command=child("raise SystemExit(7)"))


def test_a_child_that_never_answers_is_ended() -> None:
    """The query ends at its time limit."""
    with pytest.raises(HarnessError, match=r"in 0\.5 s") as caught:
        find_device(0.5, command=child("import signal; signal.pause()"))
    assert isinstance(caught.value.__cause__, subprocess.TimeoutExpired)
    assert caught.value.__cause__.timeout == 0.5


@pytest.mark.parametrize(
    ("device", "wanted"),
    [
        (H200, "h200"),
        (H200, "h200-x1"),
        (H200S, "h200-x1"),
        (LAPTOP, "cpu"),
        (UNKNOWN, "geforce"),
    ],
)
def test_the_wanted_device_is_accepted(device: Device, wanted: str) -> None:
    """A device of the wanted key or family passes; more devices than wanted are fine."""
    require_device(device, wanted)


@pytest.mark.parametrize(
    ("device", "wanted"),
    [(LAPTOP, "a100"), (H200, "cpu"), (GB200, "b200"), (H200, "h200-x8"), (UNKNOWN, "b200")],
)
def test_another_device_is_refused(device: Device, wanted: str) -> None:
    """The refusal names the wanted device and the one here, and says what to do."""
    with pytest.raises(MisuseError) as refusal:
        require_device(device, wanted)
    message = str(refusal.value)
    assert re.search(f" {wanted}, .* {device.key} .* do not ask for a device", message)
    assert "\n" not in message
    assert isinstance(refusal.value, NetpipeError)


def lists(driver: Path, *models: str) -> None:
    """Make the driver list cards of these models."""
    for number, model in enumerate(models):
        folder = driver / "gpus" / f"0000:0{number}:00.0"
        folder.mkdir(parents=True)
        text = f"Model: \t\t {model}\nIRQ:   \t\t 11\nGPU UUID: \t GPU-1\n"
        (folder / "information").write_text(text)


def refusal_of_a_cpu(wanted: str = "h200") -> str:
    """Return why a run for another device refuses the CPU."""
    with pytest.raises(MisuseError) as refusal:
        require_device(LAPTOP, wanted)
    return str(refusal.value)


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the NVIDIA driver, which lists no cards yet."""
    monkeypatch.setattr("netpipe.device.detection._DRIVER", tmp_path)
    return tmp_path


def test_without_a_gpu_another_machine_is_recommended(driver: Path) -> None:
    """The message helps a user who starts a GPU's tox environment on another machine."""
    assert not list(driver.iterdir())
    assert refusal_of_a_cpu() == (
        "this run wants device h200, but the device here is cpu-intel-xeon-2 (cpu): start it on a "
        "machine with h200, or do not ask for a device (--netpipe-device, netpipe_device)"
    )


def test_a_gpu_that_jax_does_not_use_is_named(
    driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the card and the settings that hide it."""
    lists(driver, "NVIDIA H200", "NVIDIA H200")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    message = refusal_of_a_cpu()
    for part in ("NVIDIA H200", "JAX_PLATFORMS cpu", "CUDA_VISIBLE_DEVICES not set"):
        assert message.count(part) == 1


def test_a_gpu_that_jax_uses_hides_nothing(driver: Path) -> None:
    """On a GPU of another kind, the message does not mention the driver's list."""
    lists(driver, "NVIDIA H200")
    with pytest.raises(MisuseError, match="machine with a100"):
        require_device(H200, "a100")


@pytest.mark.parametrize("device", [H200, LAPTOP, UNKNOWN])
def test_the_report_keeps_to_its_schema(device: Device, tmp_path: Path) -> None:
    """The document of `netpipe devices --json` fits the shipped schema."""
    host = Host("A Xeon", 4, 2**34, container=False)
    document = devices_document(device, host, tmp_path)
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert json.loads(json.dumps(document)) == document


def test_the_report_counts_the_baselines_of_its_device(tmp_path: Path) -> None:
    """Only the files in the folder of the device's own key are its baselines."""
    for name in ("h200-x1/0001_first.json", "h200-x1/0002_next.json", "h100-pcie-x1/0001_a.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    host = Host("A Xeon", 4, 2**34, container=False)
    assert devices_document(H200, host, tmp_path)["baseline"]["count"] == 2
    assert devices_document(LAPTOP, host, tmp_path)["baseline"]["count"] == 0
