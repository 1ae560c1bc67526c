"""The job of a session that measures: every failure ends in a result with the reason."""

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from netpipe.errors import InputError
from netpipe.jobs import child
from netpipe.jobs.registry import run_job
from netpipe.jobs.request import SCHEMA, progress_file, stacks_file
from netpipe.jobs.targets import Factories, name_targets
from netpipe.measuring import calibration, loader_puller, measure_job, protocol
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.results.measurement import Measurement
from tests.jobs import session_targets
from tests.measurements import make_measurement

TARGETS = Path(session_targets.__file__)


@pytest.fixture
def request_(tmp_path: Path) -> MeasureRequest:
    """A request whose result has a folder of its own."""
    return MeasureRequest(
        result=str(tmp_path / "result.json"), accelerator="emulated:1ms", budget_s=0.1
    )


def error_of(request: MeasureRequest) -> dict[str, str]:
    """Return the error of a result, which must be the only file beside the progress."""
    result = Path(request.result)
    left = {path.name for path in result.parent.iterdir()}
    assert left - {progress_file(request).name} == {result.name}
    document = json.loads(result.read_text())
    assert document["schema"] == SCHEMA
    assert set(document) == {"schema", "error"}
    error: dict[str, str] = document["error"]
    return error


NO_INDEX = InputError("data/", "index", "be there", "none")


def bad_data() -> Any:
    """Refuse the input, as a loader without data does."""
    raise NO_INDEX


@pytest.mark.parametrize(
    ("loader", "kind", "words"),
    [
        (session_targets.failing_loader, "failed", "OSError: disk gone"),
        (session_targets.no_loader, "misuse", "found int"),
        (list, "misuse", "gave no batch"),
        (bad_data, "misuse", str(NO_INDEX)),
    ],
)
def test_a_failure_of_the_loader_is_the_result(
    request_: MeasureRequest, loader: Callable[[], Any], kind: str, words: str
) -> None:
    """An exception of its own comes with its lines, misuse in one line."""
    run_job(request_, lambda: Factories(loader))
    error = error_of(request_)
    assert error["kind"] == kind
    assert words in error["message"]
    assert ("File " in error["message"]) is (kind == "failed")


def test_a_failure_names_the_line_of_the_loader(request_: MeasureRequest) -> None:
    """The message has the exception, the number of batches before it, and its lines."""
    run_job(request_, lambda: Factories(session_targets.failing_loader))
    first, *lines = error_of(request_)["message"].splitlines()
    assert re.search(r" 2 batches.*OSError: ", first)
    assert [line.split(",")[0].strip() for line in lines[::2]] == [f'File "{TARGETS}"']
    assert "disk gone" in lines[-1]


def leaving_loop(*_: Any) -> None:
    """End the process, as a script does."""
    sys.exit("enough")


def test_a_loop_that_exits_is_reported(request_: MeasureRequest) -> None:
    """`sys.exit` in the user's code ends with a message that names its line, not with silence."""
    run_job(request_, lambda: Factories(session_targets.tiny_loader, loop=leaving_loop))
    message = error_of(request_)["message"]
    assert message.startswith("SystemExit:")
    assert message.endswith('sys.exit("enough")')


class _Unclosable:
    """A loader whose workers end only when they are released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.closed = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(session_targets.tiny_loader())

    def close(self) -> None:
        self.released.wait(60)
        self.closed = True


def test_a_loader_that_does_not_close_keeps_the_result(
    monkeypatch: pytest.MonkeyPatch, request_: MeasureRequest
) -> None:
    """The measurement is written although a worker hangs, which is not a leak."""
    monkeypatch.setattr(loader_puller, "_CLOSE_TIMEOUT_S", 0.0)
    monkeypatch.setattr(protocol, "_LAST_CLOSE_S", 0.0)
    loader = _Unclosable()
    run_job(request_, lambda: Factories(lambda: loader))
    findings = json.loads(Path(request_.result).read_text())["measurement"]["findings"]
    names = [finding["name"] for finding in findings]
    assert "slow-close" in names
    assert "left-after-close" not in names
    assert not loader.closed
    loader.released.set()


def test_loaders_are_closed_unwatched_once_the_result_is_written(
    monkeypatch: pytest.MonkeyPatch, request_: MeasureRequest
) -> None:
    """The watchdog does not discard the result, however slowly a loader closes."""
    states: dict[str, tuple[bool, bool]] = {}

    def note_close(loader: str) -> None:
        # The file for stacks is there while a watchdog is armed.
        states[loader] = (Path(request_.result).exists(), stacks_file(request_).exists())

    monkeypatch.setattr(_Unclosable, "close", lambda _: note_close("user's"))
    monkeypatch.setattr(calibration.ReferenceLoader, "close", lambda _: note_close("reference"))
    run_job(request_, lambda: Factories(_Unclosable))
    assert states == {"user's": (True, False), "reference": (True, False)}


def test_a_real_accelerator_needs_a_step(tmp_path: Path) -> None:
    """Only an emulated one works without a step."""
    request = MeasureRequest(result=str(tmp_path / "result.json"))
    run_job(request, lambda: Factories(session_targets.tiny_loader))
    error = error_of(request)
    assert error["kind"] == "misuse"
    assert re.match("a step .*emulated.* found none", error["message"])


def test_a_step_that_is_none_is_misuse(request_: MeasureRequest) -> None:
    """The step must be suitable, although an emulated accelerator does not run it."""
    run_job(request_, lambda: Factories(session_targets.tiny_loader, session_targets.bad_step))
    error = error_of(request_)
    assert error["kind"] == "misuse"
    assert "bad_step must return (state, step); found int. Name a function" in error["message"]


def run_main(monkeypatch: pytest.MonkeyPatch, request: MeasureRequest, **targets: str) -> None:
    """Run the child's main function with a request for some targets."""
    monkeypatch.setattr("sys.path", list(sys.path))  # a target adds its folder
    asked = replace(request, targets=name_targets(**targets))
    monkeypatch.setenv("NETPIPE_SESSION", asked.to_json())
    child.main()


@pytest.mark.parametrize("role", ["step", "loop"])
def test_every_target_is_looked_up(
    monkeypatch: pytest.MonkeyPatch, request_: MeasureRequest, role: str
) -> None:
    """A missing step or loop is misuse, whatever the loader is."""
    run_main(monkeypatch, request_, loader="json:loads", **{role: "json:absent"})
    error = error_of(request_)
    assert error["kind"] == "misuse"
    assert "found 'absent'" in error["message"]


def test_a_failed_import_of_a_target_is_explained(
    monkeypatch: pytest.MonkeyPatch, request_: MeasureRequest, tmp_path_factory: Any
) -> None:
    """An error in a target's module names its line."""
    module = tmp_path_factory.mktemp("stranger") / "stranger_failing.py"
    module.write_text("raise ValueError('no such corpus')\n")
    run_main(monkeypatch, request_, loader=f"{module}:loader")
    error = error_of(request_)
    assert error["kind"] == "failed"
    assert error["message"].startswith("ValueError: no such")
    assert "stranger_failing.py" in error["message"]


def test_the_import_of_targets_is_timed(
    monkeypatch: pytest.MonkeyPatch, request_: MeasureRequest, tmp_path_factory: Any
) -> None:
    """The import is part of each start of a training."""
    module = tmp_path_factory.mktemp("stranger") / "stranger_slow.py"
    module.write_text("import time\ntime.sleep(0.2)\ndef loader(): ...\n")
    seen: list[Factories] = []

    def measure_factories(_: object, factories: Factories, __: object) -> dict[str, Any]:
        seen.append(factories)
        return {}

    monkeypatch.setattr(measure_job, "measure_factories", measure_factories)
    run_main(monkeypatch, request_, loader=f"{module}:loader")
    assert seen[0].import_s is not None
    assert seen[0].import_s >= 0.2


def test_the_request_says_what_ends_the_rounds(
    monkeypatch: pytest.MonkeyPatch, request_: MeasureRequest
) -> None:
    """The stopping rule is consulted from the sixth round on, well before the budget ends."""
    monkeypatch.setattr(measure_job, "is_clearly_healthy", lambda _: True)
    request = replace(request_, budget_s=100.0, stopping_rule="clear")
    run_job(request, lambda: Factories(session_targets.tiny_loader))
    document = json.loads(Path(request.result).read_text())
    assert document["measurement"]["step_s"]["n"] == 6


@pytest.mark.parametrize(("rule", "halves"), [("compared", True), ("budget", False)])
def test_only_a_compared_session_may_take_half_of_its_budget(
    monkeypatch: pytest.MonkeyPatch, request_: MeasureRequest, rule: Any, halves: bool
) -> None:
    """A diagnosis, for example, needs all of it."""
    seen: list[bool] = []

    def measure(*_: object, halves_on_shared_cores: bool, **__: object) -> Iterator[Measurement]:
        seen.append(halves_on_shared_cores)
        yield make_measurement()

    monkeypatch.setattr(measure_job, "measure", measure)
    run_job(replace(request_, stopping_rule=rule), lambda: Factories(session_targets.tiny_loader))
    assert seen == [halves]
