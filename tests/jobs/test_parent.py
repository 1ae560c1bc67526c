"""A session's process gives its result, or how it failed."""

import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from netpipe.device.host import this_host
from netpipe.errors import HangError, InputError, MisuseError, OutOfTimeError, SessionError
from netpipe.jobs import parent
from netpipe.jobs import request as request_module
from netpipe.jobs.parent import CHILD_COMMAND, open_session, run_measurement, run_session
from netpipe.jobs.targets import name_targets
from netpipe.linting.lint_request import LintRequest
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.results.measurement import Measurement
from tests.jobs.child_programs import LINT, REQUEST, child, wait_until_gone
from tests.jobs.session_targets import tiny_loader
from tests.measurements import make_measurement

TARGETS = Path(__file__).with_name("session_targets.py")


def measure(loader: str, **limits: float) -> Measurement:
    """Measure a target in a session."""
    request = replace(REQUEST, targets=name_targets(loader=loader), **limits)  # type: ignore[arg-type]
    return run_measurement(CHILD_COMMAND, request)


def test_a_child_gives_a_measurement(here: Path) -> None:
    """The caller gets the measurement that the child wrote."""
    made = make_measurement()
    (here / "made.json").write_text(json.dumps(made.to_document()))
    source = "answer(measurement=json.loads((here / 'made.json').read_text()))"
    assert run_measurement(child(here, source), REQUEST) == made


def test_a_child_gets_its_request(here: Path) -> None:
    """The child knows who waits for it, and gets a result file that is removed at the end."""
    asked = LintRequest(budget_s=7.0, batch_limit_s=3.0, intent="reproducible")
    found = run_session(child(here, "answer(lint=request)"), asked)
    result = found.pop("result")
    assert not Path(result).parent.exists()
    assert found == {
        "kind": "lint", "budget_s": 7.0, "batch_limit_s": 3.0, "intent": "reproducible",
        "parent": os.getpid(),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("file", "platforms", "on_cpu"),
    [
        ("null", None, True),
        ("nvidiactl", None, False),
        ("vfio/vfio", None, True),
        ("vfio/0", None, False),
        ("nvidiactl", "cpu", True),
        ("null", "cuda", False),
    ],
)
def test_sessions_are_on_the_cpu_where_no_accelerator_is(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    platforms: str | None,
    on_cpu: bool,
) -> None:
    """Only then may several of them run at a time."""
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    monkeypatch.setattr(parent, "_DEVICES", tmp_path)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    if platforms:
        monkeypatch.setenv("JAX_PLATFORMS", platforms)
    assert parent.is_on_cpu(MeasureRequest()) is on_cpu


@pytest.mark.parametrize(("accelerator", "platforms"), [("auto", "cuda"), ("emulated:5ms", "cpu")])
def test_an_emulated_accelerator_leaves_the_real_one_alone(
    accelerator: str, platforms: str
) -> None:
    """The session runs on the CPU; with `auto` the user's own setting stands."""
    base = {"JAX_PLATFORMS": "cuda", "PYTEST_XDIST_WORKER": "gw0", "HOME": "/root"}
    base["TMPDIR"] = "/tmp/mine"  # the user's own folder
    base["NETPIPE_STORAGES"] = "object-store /proc/1/fd/7"  # of this process, not of the session
    request = MeasureRequest(result="/some/where/result.json", accelerator=accelerator)
    found = parent._variables(base, request)
    assert found.pop("NETPIPE_SESSION")
    assert found == {"JAX_PLATFORMS": platforms, "HOME": "/root", "TMPDIR": "/tmp/mine"}


def test_the_cpu_time_includes_the_processes_that_it_started(here: Path) -> None:
    """Each of three computes for 0.2 s; one of them then ends."""
    source = r"""
compute = "import time\nwhile time.process_time() < 0.2: pass\n"
subprocess.run([sys.executable, "-c", compute])
subprocess.Popen([sys.executable, "-c", compute + "time.sleep(600)"])
exec(compute)
time.sleep(600)
"""
    with open_session(child(here, source), LINT) as session:
        deadline = time.monotonic() + 60
        while session.cpu_s() < 0.55:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("source", "ending"),
    [
        ("print('last words'); sys.exit(3)", "ended with code 3"),
        ("print('last words')", "ended with code 0"),
        (
            "print('last words', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
            r"ended by SIGKILL \(memory may have run out: lower per_worker_buffer_size, ",
        ),
        ("sys.stderr.write('last words'); raise KeyError('x')", "ended with code 1"),
    ],
)
def test_the_error_has_the_ending_of_a_child_without_a_result(
    here: Path, source: str, ending: str
) -> None:
    """The error has the child's ending, and its last lines from both streams."""
    with pytest.raises(SessionError, match=ending) as caught:
        run_measurement(child(here, source), REQUEST)
    assert "last words" in str(caught.value)


def test_the_error_has_only_the_last_lines(here: Path) -> None:
    """The last 25 of many lines are shown, with replacements for bytes that are not text."""
    print_lines = "[print('line', n) for n in range(40)]; sys.stdout.flush()"
    source = f"{print_lines}; sys.stdout.buffer.write(b'\\xff'); sys.exit(3)"
    with pytest.raises(SessionError, match=r"lines:\nline 16\n") as caught:
        run_measurement(child(here, source), REQUEST)
    assert str(caught.value).endswith("line 39\n\N{REPLACEMENT CHARACTER}")


def test_a_child_out_of_time_is_killed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless child is ended at its limit, which the error names."""
    limits_s = {"_IMPORT_S": 0.0, "START_LIMIT_S": 0.1, "OVERTIME_S": 0.1, "FAREWELL_S": 0.1}
    for name, limit_s in limits_s.items():
        monkeypatch.setattr(request_module, name, limit_s)
    request = MeasureRequest(budget_s=0.1, start_limit_s=0.1)
    with pytest.raises(SessionError, match=r"0\.6 s and was killed"):
        run_measurement(child(here, "time.sleep(1000)"), request)


def test_a_child_that_waited_has_its_whole_limit(here: Path) -> None:
    """The limit counts from the last restart, after which the child still ends in time."""
    source = "while not (here / 'turn').exists(): time.sleep(0.01)\nanswer(lint={'found': 1})"
    with open_session(child(here, source), replace(LINT, time_left_s=60.0)) as session:
        session._deadline = 0.0  # its turn comes late
        session.restart_limit()
        (here / "turn").touch()
        assert session.result() == {"found": 1}


def test_a_child_that_the_caller_cut_short_is_out_of_time(here: Path) -> None:
    """If the time that several sessions share is used up, this session has not failed."""
    request = MeasureRequest(time_left_s=0.1)
    with pytest.raises(OutOfTimeError, match=r"0\.1 s and was killed"):
        run_measurement(child(here, "time.sleep(1000)"), request)


def test_a_child_that_crashes_later_leaves_what_it_had(here: Path) -> None:
    """A partial result counts when the session ends without a complete one."""
    source = (
        "answer(lint={'found': 1}); result.rename(result.with_name('partial.json'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert run_session(child(here, source), LINT) == {"found": 1}


def test_a_child_that_lingers_is_killed_with_its_result_read(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result counts although its process does not end."""
    monkeypatch.setattr(parent, "FAREWELL_S", 0.1)
    source = "answer(lint={'pid': os.getpid()}); time.sleep(1000)"
    wait_until_gone(run_session(child(here, source), LINT)["pid"])


def test_a_result_may_be_read_before_its_process_ends(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process goes on, and the result can be read again when it has ended."""
    monkeypatch.setattr(parent, "FAREWELL_S", 60.0)
    source = (
        "answer(lint={'found': 1})\nwhile not (here / 'read').exists(): time.sleep(0.01)\n"
        "(here / 'ended').touch()"
    )
    with open_session(child(here, source), LINT) as session:
        assert session.result(is_early=True) == {"found": 1}
        assert not (here / "ended").exists()
        (here / "read").touch()
        assert session.result() == {"found": 1}
        assert (here / "ended").exists()


@pytest.mark.parametrize(
    "source",
    [
        "result.write_text('{not json')",
        "result.write_bytes(b'\\xff\\xfe')",
        "result.write_text('[]')",
        "answer()",
        "answer(lint={}, work={})",
        "answer(error={'kind': 'boredom', 'message': 'no'})",
    ],
)
def test_garbage_is_no_result(here: Path, source: str) -> None:
    """A result of another shape is a failed session, not a crash of the caller."""
    with pytest.raises(SessionError, match=r"netpipe\.session/1; found"):
        run_measurement(child(here, source), REQUEST)


def test_a_measurement_of_another_schema_is_refused(here: Path) -> None:
    """The result of an incompatible version of netpipe is refused."""
    with pytest.raises(InputError, match=r"schema .*netpipe\.measurement/1"):
        run_measurement(
            child(here, "answer(measurement={'schema': 'netpipe.measurement/0'})"), REQUEST
        )


@pytest.mark.parametrize(
    ("kind", "error"), [("misuse", MisuseError), ("hang", HangError), ("failed", SessionError)]
)
def test_an_error_keeps_its_type_and_its_message(here: Path, kind: str, error: Any) -> None:
    """Misuse, a hang and a failure are different errors, with the child's own message."""
    source = f"answer(error={{'kind': {kind!r}, 'message': 'words'}})"
    with pytest.raises(error, match=r"^words$") as caught:
        run_measurement(child(here, source), REQUEST)
    assert type(caught.value) is error


def test_a_target_that_is_not_there_is_misuse() -> None:
    """The child's error about a target reaches the caller with its type."""
    with pytest.raises(MisuseError, match=r"absent\.py: .*found none"):
        measure("absent.py:loader")


def test_a_loader_that_hangs_is_ended_and_named() -> None:
    """The error has the number of batches before, and the line of the loader."""
    with pytest.raises(HangError, match=r"0\.5 s after 2 batches") as caught:
        measure(f"{TARGETS}:hanging_loader", batch_limit_s=0.5)
    assert "hanging_loader" in str(caught.value)


def test_a_session_measures_from_end_to_end() -> None:
    """A loader and an emulated accelerator give a whole measurement with equally many rounds."""
    found = measure(f"{TARGETS}:tiny_loader")
    assert (found.device.key, found.device.platform) == ("emulated-5ms", "emulated")
    assert found.host == this_host()
    assert found.batch_bytes == next(tiny_loader())["x"].nbytes
    readers = {"array-record", "pyarrow"}
    others = {"python", "netpipe", "grain", "jax", "jaxlib", "numpy"}
    assert set(found.versions) == others | readers
    rounds = {len(series) for series in asdict(found.rounds).values() if series}
    assert rounds == {found.step_s.n}
    assert found.step_s.n >= 1
    assert found.step_s.median >= 0.005
    assert found.compilations == 0
    assert found.elapsed_s > 0
