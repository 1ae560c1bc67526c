"""Questions to diagnose: the command line, and how its document or failure is read."""

import json
import sys
from typing import Any
from uuid import uuid4

import pytest
from psutil import process_iter, wait_procs

from perf_tests.studies.children import ChildError, run_for_json
from perf_tests.studies.diagnosis import asking
from perf_tests.studies.diagnosis.asking import Question, diagnose, parse_answer
from tests.studies.diagnosis.answers_made import answer

DOCUMENT = {
    "schema": "netpipe.diagnosis/1",
    "sentence": answer().sentence,
    **answer().findings.to_document(),
    "measurement": None,
}


def test_only_given_options_are_on_the_command_line() -> None:
    """Options that a question lacks are not on the command line."""
    bare = Question("a:loader", {}, budget_s=7.5)
    assert bare.arguments[1:3] == ["netpipe", "diagnose"]
    assert bare.arguments[3:] == ["--loader", "a:loader", "--budget", "7.5", "--json"]
    full = Question("a:loader", {}, 5.0, accelerator="emulated:9ms", step="a:step", loop="a:loop")
    assert {"a:step", "a:loop", "emulated:9ms"} <= set(full.arguments)


def test_a_document_becomes_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence and all findings are read, and the child gets the variables."""
    asked: list[Any] = []

    def printed(*arguments: Any) -> Any:
        asked.append(arguments)
        return json.loads(json.dumps(DOCUMENT))

    monkeypatch.setattr(asking, "run_for_json", printed)
    assert diagnose(Question("a:loader", {"A": "b"}, 5.0)) == answer()
    assert asked[0][1] == {"A": "b"}
    assert asked[0][2] > 5.0


@pytest.mark.parametrize("lacks", ["sentence", "bottleneck"])
def test_another_document_is_no_answer(lacks: str) -> None:
    """A document without a part is refused, and the error names the part."""
    document = {name: value for name, value in DOCUMENT.items() if name != lacks}
    with pytest.raises(ChildError, match=lacks):
        parse_answer(document)


def test_a_child_prints_what_its_environment_says() -> None:
    """The child receives the variables; its exit code is ignored if it printed a document."""
    code = "import os, json, sys; print(json.dumps({'is': os.environ['A']})); sys.exit(1)"
    assert run_for_json(["-c", code], {"A": "b"}, 30.0) == {"is": "b"}


def test_the_whole_message_of_netpipe_is_shown() -> None:
    """The stack of a hanging loader follows the message."""
    code = (
        "import sys; print('starting\\nnetpipe: it hangs\\n  in f', file=sys.stderr); sys.exit(2)"
    )
    with pytest.raises(ChildError, match=r"code 2: it hangs\n  in f$"):
        run_for_json(["-c", code], {}, 60.0)


def test_a_child_that_prints_nothing_is_an_error() -> None:
    """The error has the exit code and the last line of its log."""
    code = "import sys; print('one\\ntwo', file=sys.stderr); sys.exit(2)"
    with pytest.raises(ChildError, match="code 2: two"):
        run_for_json(["-c", code], {}, 30.0)


def test_a_child_that_does_not_end_is_ended() -> None:
    """The child and its descendants are gone when the error is raised."""
    token = f"netpipe-test-{uuid4()}"
    endless = [sys.executable, "-c", "import time; time.sleep(60)", token]
    with pytest.raises(ChildError, match=r"more than 1 s"):
        run_for_json(["-c", f"import subprocess; subprocess.run({endless})"], {}, 1.0)
    started = [
        process for process in process_iter(["cmdline"]) if token in (process.info["cmdline"] or ())
    ]
    assert wait_procs(started, timeout=5)[1] == []
