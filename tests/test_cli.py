"""The command line: standard output, standard error and exit codes."""

import errno
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from netpipe.errors import InputError, MisuseError
from netpipe.jobs import parent
from netpipe.jobs.request import SessionRequest
from netpipe.results.documents import check_document
from netpipe.results.measurement import Finding, Measurement
from netpipe.verdict import decision
from netpipe.verdict.kinds import Verdict, VerdictKind
from tests.command import Netpipe, document
from tests.measurements import CPU, EMULATED, make_measurement
from tests.sessions_here import sessions_here as sessions_here

PIPELINES = """
import itertools
import grain
import numpy as np

def loader():
    return itertools.repeat({"x": np.zeros((2, 4), np.int32)})

def failing():
    yield {"x": np.zeros((2, 4), np.int32)}
    raise ValueError("disk on fire")

def ordered():
    workers = grain.MultiprocessingOptions(num_workers=2)
    return grain.MapDataset.range(64).batch(4).to_iter_dataset(
        grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    ).mp_prefetch(workers)

def disordered():
    workers = grain.MultiprocessingOptions(num_workers=2)
    return grain.MapDataset.range(64).to_iter_dataset().mp_prefetch(workers).batch(4)

def curious(batches, state, step):
    for batch in batches:
        state, aux = step(state, batch)
        print(state.params)

not_callable = 3
"""

NO_SPACE = os.strerror(errno.ENOSPC)


@pytest.fixture
def pipelines(tmp_path: Path) -> str:
    """Return a file whose functions make loaders."""
    path = tmp_path / "pipelines_for_cli.py"
    path.write_text(PIPELINES)
    return str(path)


def test_generate_makes_data_that_the_pipeline_reads(netpipe: Netpipe, tmp_path: Path) -> None:
    """`netpipe generate` leaves parquet and shards, and nothing on standard output."""
    result = netpipe("generate", "--out", tmp_path / "data", "--probes", 30, "--seed", 1)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert (tmp_path / "data" / "index.json").is_file()
    assert list((tmp_path / "data").glob("train-*.arrayrecord"))
    assert list((tmp_path / "data" / "parquet").glob("*.parquet"))


def test_prepare_takes_a_folder_of_parquet(netpipe: Netpipe, tmp_path: Path) -> None:
    """`netpipe prepare FOLDER` gives the shards that `generate` makes from the same parquet."""
    netpipe("generate", "--out", tmp_path / "data", "--probes", 30)
    result = netpipe("prepare", tmp_path / "data" / "parquet", "--out", tmp_path / "again")
    assert result.exit_code == 0, result.stderr
    folders = (tmp_path / "data", tmp_path / "again")
    indexes = [json.loads((folder / "index.json").read_text()) for folder in folders]
    assert indexes[0]["fingerprint"] == indexes[1]["fingerprint"]


def test_bad_input_is_one_line_and_exit_code_two(netpipe: Netpipe, tmp_path: Path) -> None:
    """A file that is not parquet is named in one line, and no output is left behind."""
    (tmp_path / "text.parquet").write_text("not parquet")
    result = netpipe("prepare", tmp_path / "text.parquet", "--out", tmp_path / "out")
    assert result.exit_code == 2
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("netpipe: ")
    assert "text.parquet" in last
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.parquet"]


@pytest.mark.parametrize("name", ["it's; rm -r $HOME", "-x"])
def test_the_command_after_prepare_can_be_pasted(
    netpipe: Netpipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The folder's name is quoted for the shell, and is not taken for a flag."""
    monkeypatch.chdir(tmp_path)
    result = netpipe("generate", "--out", f"./{name}", "--probes", 30)
    command = result.stderr.split("measure with them: ")[1]
    assert shlex.split(command) == ["pytest", "perf_tests", f"--netpipe-data={name}"]


def test_measure_prints_one_document(netpipe: Netpipe, pipelines: str) -> None:
    """`measure --json` prints a valid `netpipe.measurement/1` and nothing else."""
    result = netpipe(
        "measure", "--loader", f"{pipelines}:loader", "--accelerator", "emulated:5ms",
        "--budget", 1, "--json",
    )  # fmt: skip
    found = document(result, "measurement.1.json")
    assert found["device"] == {
        "key": "emulated-5ms", "kind": "emulated:5ms", "platform": "emulated", "count": 1,
        "emulated": True,
    }  # fmt: skip


@pytest.mark.usefixtures("sessions_here")
def test_a_named_accelerator_takes_flops(netpipe: Netpipe, pipelines: str) -> None:
    """Peak, MFU and FLOPs make the step time, and the document says so."""
    result = netpipe(
        "measure", "--loader", f"{pipelines}:loader", "--accelerator", "emulated:8xh100",
        "--flops-per-step", 1.9780e13, "--mfu", 0.5, "--budget", 1, "--json",
    )  # fmt: skip
    found = document(result, "measurement.1.json")
    kind = found["device"].pop("kind")
    assert re.search(r"8xh100.* 19\.8 TFLOP.* 0\.5", kind)
    assert found["device"] == {
        "key": "emulated-h100-x8", "platform": "emulated", "count": 8, "emulated": True,
    }  # fmt: skip
    assert found["step_s"]["median"] >= 0.005
    # The step reaches at most the MFU that sets its time; its batches have 2 rows.
    used = found["accelerator_utilisation"]["median"]
    assert found["mfu"]["median"] == pytest.approx(0.5 * used)
    assert found["tokens_unit"] == "examples"
    rows_per_s, of_device = found["tokens_per_s"], found["tokens_per_s_per_device"]
    assert of_device["median"] == pytest.approx(rows_per_s["median"] / 8)
    # On a busy machine the measurement can be inconclusive, and then there is no advice.
    is_decided = found["verdict"]["kind"] != "inconclusive"
    assert (found["workers_needed"] is not None) == is_decided


@pytest.fixture
def two_accelerators(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the names of a slow and a fast accelerator with faked measurements."""
    recorded = {
        name: make_measurement(
            device=replace(EMULATED, key=name.replace(":", "-")), step_s=step_s, train_s=train_s
        )
        for name, step_s, train_s in (("emulated:90ms", 0.09, 0.09), ("emulated:2ms", 0.002, 0.01))
    }
    monkeypatch.setattr(
        parent, "run_measurement", lambda _, asked, **__: recorded[asked.accelerator]
    )
    return ", ".join(recorded)


def test_a_list_of_accelerators_gives_a_row_each(netpipe: Netpipe, two_accelerators: str) -> None:
    """`--accelerator A,B` measures against both, and prints a row and a verdict for each."""
    result = netpipe("measure", "--loader", "a:b", "--accelerator", two_accelerators)
    for words in (
        ("emulated-90ms (derived)", "9.00", "healthy"),
        ("emulated-2ms (derived)", "0.20", "loader-bound"),
        ("emulated-2ms (derived): loader-bound",),
        ("next: make loading faster; netpipe diagnose",),
        ("cores needed: 4 (", "2)"),
        ("derived", "emulated:30ms"),
    ):
        assert any(all(word in line for word in words) for line in result.stdout.splitlines())
    assert result.exit_code == 1


def test_a_list_of_accelerators_gives_one_document(netpipe: Netpipe, two_accelerators: str) -> None:
    """`measure --json` with a list prints a valid `netpipe.measurements/1`, in its order."""
    result = netpipe("measure", "--loader", "a:b", "--accelerator", two_accelerators, "--json")
    found = document(result, "measurements.1.json")
    keys = [measured["device"]["key"] for measured in found["measurements"]]
    assert keys == ["emulated-90ms", "emulated-2ms"]


@pytest.fixture
def failing_at_second(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the names of three accelerators; the second cannot be measured."""

    def measured(_: object, asked: SessionRequest, **__: object) -> Measurement:
        if asked.accelerator == "emulated:2ms":
            raise MisuseError("no such luck")
        return make_measurement(device=EMULATED)

    monkeypatch.setattr(parent, "run_measurement", measured)
    return "emulated:1ms,emulated:2ms,emulated:3ms"


def test_measurements_before_a_failure_are_printed(
    netpipe: Netpipe, failing_at_second: str
) -> None:
    """The measurements come first, then the error, which sets the exit code."""
    result = netpipe("measure", "--loader", "a:b", "--accelerator", failing_at_second)
    assert result.exit_code == 2
    assert result.stdout.count(": healthy") == 1
    assert result.output.rstrip().endswith("no such luck")


def test_measurements_before_a_failure_are_one_document(
    netpipe: Netpipe, failing_at_second: str
) -> None:
    """A list of accelerators gives a list document, even with one measurement."""
    result = netpipe("measure", "--loader", "a:b", "--accelerator", failing_at_second, "--json")
    assert result.exit_code == 2
    assert len(document(result, "measurements.1.json")["measurements"]) == 1


CODE = "float(metrics[name]) [/x] items[:x:] [bold]"


def test_code_is_printed_as_it_is(netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brackets and colons in verdicts, remarks and device names are printed literally."""
    recorded = make_measurement(
        load_s=0.040, train_s=0.040, findings=(Finding("blocking", CODE),),
        device=replace(EMULATED, kind=CODE),
    )  # fmt: skip
    verdict = Verdict(VerdictKind.LOADER_BOUND, CODE, (CODE,), CODE)
    monkeypatch.setattr(parent, "run_measurement", lambda *_, **__: recorded)
    monkeypatch.setattr(decision, "judge", lambda _: verdict)
    result = netpipe("measure", "--loader", "a:b", "--accelerator", "emulated:30ms")
    assert result.exit_code == 1, result.output
    assert result.stdout.count(CODE) == 5


@pytest.mark.parametrize(
    ("recorded", "code"),
    [
        (make_measurement(), 0),
        (make_measurement(load_s=0.027), 0),
        (make_measurement(load_s=0.040, train_s=0.040), 1),
        (make_measurement(train_s=0.040, shadow_s=0.040), 1),
        (make_measurement(train_s=0.040, device=CPU), 0),
        (make_measurement(drained=False), 3),
    ],
    ids=["healthy", "at-risk", "loader-bound", "contention", "contention-on-a-cpu", "inconclusive"],
)
def test_the_verdict_decides_the_exit_code(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, recorded: Measurement, code: int
) -> None:
    """0: it passes; 1: it fails; 3: it is inconclusive."""
    monkeypatch.setattr(parent, "run_measurement", lambda *_, **__: recorded)
    assert netpipe("measure", "--loader", "a:b", "--step", "a:c").exit_code == code


FINE, SLOW = make_measurement(), make_measurement(load_s=0.040, train_s=0.040)
OPEN = make_measurement(drained=False)


@pytest.mark.parametrize(
    ("recorded", "code"),
    [
        ([FINE, FINE], 0),
        ([FINE, OPEN], 3),
        ([OPEN, FINE], 3),
        ([SLOW, OPEN], 1),
        ([OPEN, SLOW], 1),
        ([SLOW, FINE], 1),
    ],
)
def test_a_failure_among_several_decides(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, recorded: list[Measurement], code: int
) -> None:
    """A failed verdict gives 1 even beside an inconclusive one, which alone gives 3."""
    coming = iter(recorded)
    monkeypatch.setattr(parent, "run_measurement", lambda *_, **__: next(coming))
    result = netpipe("measure", "--loader", "a:b", "--accelerator", "emulated:1ms,emulated:2ms")
    assert result.exit_code == code


@pytest.mark.usefixtures("sessions_here")
@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--loader", "nowhere.py:loader"), "nowhere.py: "),
        (("--loader", "loader"), "package.module:name"),
        (("--loader", "PIPELINES:nothing"), "name must be"),
        (("--loader", "PIPELINES:not_callable"), "must be callable"),
        (("--loader", "PIPELINES:failing"), "disk on fire"),
        (("--loader", "PIPELINES:loader", "--accelerator", "emulated:fast"), "emulated:36ms"),
        (("--loader", "PIPELINES:loader", "--accelerator", "auto"), "a step must"),
        (("--loader", "PIPELINES:loader", "--accelerator", "emulated:h100"), "FLOPs"),
        (("--loader", "PIPELINES:loader", "--loop", "PIPELINES:curious"), "state.params"),
        (("--loader", "PIPELINES:loader", "--mfu", "0"), "MFU"),
        (("--loader", "PIPELINES:loader", "--budget", "0"), "budget must"),
    ],
)
def test_misuse_says_what_is_wrong(
    netpipe: Netpipe, pipelines: str, words: tuple[str, ...], named: str
) -> None:
    """A target that cannot be measured gives exit code 2 and the cause."""
    chosen = [word.replace("PIPELINES", pipelines) for word in words]
    if "--accelerator" not in words:
        chosen += ["--accelerator", "emulated:5ms"]
    result = netpipe("measure", *chosen)
    assert result.exit_code == 2
    assert named in result.stderr
    assert result.stdout == ""


def test_devices_prints_this_machine(netpipe: Netpipe) -> None:
    """`devices --json` prints a valid `netpipe.devices/1`."""
    found = document(netpipe("devices", "--json"), "devices.1.json")
    assert found["device"]["key"].startswith("cpu-")


def test_doctor_describes_this_machine(netpipe: Netpipe) -> None:
    """`doctor --json` prints a valid `netpipe.doctor/1`, the table its findings."""
    found = document(netpipe("doctor", "--json"), "doctor.1.json")
    assert found["device"]["key"].startswith("cpu-")
    found["disturbances"] = [{"what": "a cat"}]
    with pytest.raises(InputError, match="remedy"):
        check_document(found, "doctor.1", Path("doctor"))


def test_doctor_says_that_jax_is_broken(netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """If jax does not answer, the device is null and a finding has the reason."""
    monkeypatch.setenv("JAX_PLATFORMS", "abacus")
    found = document(netpipe("doctor", "--json"), "doctor.1.json")
    assert (found["device"], found["baseline"]) == (None, None)
    assert "JAX_PLATFORMS abacus" in found["disturbances"][-1]["what"]
    printed = netpipe("doctor")
    assert printed.exit_code == 0
    assert "JAX_PLATFORMS abacus" in printed.stdout


def test_doctor_takes_no_argument(netpipe: Netpipe) -> None:
    """Misuse ends with exit code 2."""
    assert netpipe("doctor", "me").exit_code == 2


def test_a_warning_is_one_line(netpipe: Netpipe, tmp_path: Path) -> None:
    """Probes that private addresses may have merged: the warning has no line of source."""
    measured = pa.table(
        {
            "event_time": pa.array([0, 1, 2], pa.timestamp("us")),
            "src_addr": ["10.0.0.1", "10.0.0.2", "10.0.0.3"],
            "dst_addr": ["8.8.8.8"] * 3,
            "ip_version": pa.array([4] * 3, pa.int8()),
            "rtt": pa.array([1.0, 2.0, 3.0], pa.float32()),
        }
    )
    pq.write_table(measured, tmp_path / "nat.parquet")
    result = netpipe("prepare", tmp_path / "nat.parquet", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.stderr
    warnings = [line for line in result.stderr.splitlines() if line.startswith("netpipe: warning")]
    assert len(warnings) == 1
    assert "UserWarning" not in result.stderr
    assert "parquet.py" not in result.stderr


@pytest.mark.parametrize("package", ["optax", "pyarrow"])
def test_a_missing_package_of_the_workload_is_named_with_its_extra(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str
) -> None:
    """Only this repository's own data and step need the packages of the extra."""

    def missing(*_: object, **__: object) -> None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr("netpipe.workload.preparation.synthetic.generate", missing)
    result = netpipe("generate", "--out", tmp_path / "data")
    assert result.exit_code == 2
    assert package in result.stderr
    assert "'netpipe[workload]'" in result.stderr


def test_a_full_disk_is_one_line(netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that cannot make its temporary folder names the full place."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, NO_SPACE, "/full/folder")

    monkeypatch.setattr(tempfile, "mkdtemp", fail)
    result = netpipe("lint", "a:b")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"netpipe: /full/folder: {NO_SPACE}"


@pytest.mark.parametrize("stream", ["stdout", "stderr", "stdin"])
def test_a_closed_stream_is_like_dev_null(stream: str) -> None:
    """The command runs as usual, and its files do not get the stream's number."""
    number = ("stdin", "stdout", "stderr").index(stream)
    shell = f'exec "$0" -m netpipe --version {number}>&-'
    done = subprocess.run(["/bin/sh", "-c", shell, sys.executable], capture_output=True, check=True)
    assert done.stderr == b""


@pytest.mark.parametrize("words", [["--version"], ["report", "--help"]])
def test_a_full_disk_behind_standard_output_is_one_line(words: list[str]) -> None:
    """Unprintable output is an error, not a traceback."""
    command = [sys.executable, "-m", "netpipe", *words]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"netpipe: {NO_SPACE}\n")


@pytest.mark.parametrize("words", [["lint", "--help"], ["devices"]], ids=" ".join)
def test_a_closed_pipe_has_no_verdict(words: list[str]) -> None:
    """`netpipe ... | head` ends as SIGPIPE would end it; 1 would mean a regression."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "netpipe", *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("error", [KeyboardInterrupt, click.Abort])
def test_an_interrupted_command_has_no_verdict(
    netpipe: Netpipe,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    error: type[BaseException],
) -> None:
    """Ctrl-C ends a command with 130; click's 1 would mean a regression."""

    def interrupt(*_: object) -> None:
        raise error

    monkeypatch.setattr("netpipe.workload.inspection.inspect", interrupt)
    assert netpipe("inspect", tmp_path).exit_code == 130


@pytest.mark.parametrize(
    ("words", "option", "value"),
    [
        (("prepare", "."), "--shards", "10001"),
        (("prepare", "."), "--shards", "0"),
        (("prepare", "."), "--seed", "-1"),
        (("generate",), "--seed", "-1"),
        (("generate",), "--probes", "1"),
    ],
)
def test_a_setting_outside_its_range_is_refused(
    netpipe: Netpipe, tmp_path: Path, words: tuple[str, ...], option: str, value: str
) -> None:
    """The error names the option, and nothing is written."""
    result = netpipe(*words, "--out", str(tmp_path / "o"), option, value)
    assert result.exit_code == 2
    assert option in result.stderr
    assert not list(tmp_path.iterdir())
