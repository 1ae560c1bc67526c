"""`--netpipe-storage`: the storage that sessions read from, and its mark on results."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from netpipe.jobs.targets import Factories
from netpipe.plugin import session_plugin
from tests.plugin.project import NO_STALL, Project, line_with
from tests.plugin.recorded import recorded

STORAGE = "--netpipe-storage=network-disk"
PLACED = replace(recorded(), fingerprint="the same data in network-disk", storage="network-disk")
LOADER = """
    import pytest

    class Rows:
        def __len__(self):
            return 10

        def __getitem__(self, index):
            return index

    @pytest.fixture
    def netpipe_loader():
        import grain
        return lambda: grain.MapDataset.source(Rows())

    @pytest.fixture
    def netpipe_step():
        return None

    @pytest.fixture
    def netpipe_fingerprint():
        return "the same data"
"""


@pytest.fixture
def served(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Callable[[], Any]:
    """Return a function that runs a test, and returns the factories that its session measures."""
    seen: list[Factories] = []
    monkeypatch.setattr(session_plugin, "run_job", lambda _, make: seen.append(make()))

    def serve() -> Factories:
        project.pytester.makeconftest(LOADER)
        project.run(STORAGE)
        request = replace(project.requests[-1], result=str(tmp_path / "result.json"))
        with monkeypatch.context() as process:
            process.setenv("NETPIPE_SESSION", request.to_json())
            process.setenv("NETPIPE_STORAGES", "")
            project.run(*project.commands[-1][3:])
        return seen[-1]

    return serve


def test_a_session_places_its_loader(served: Callable[[], Factories]) -> None:
    """The fingerprint names the storage."""
    factories = served()
    assert factories.loader.netpipe_storage == "remote"  # type: ignore[attr-defined]
    assert factories.fingerprint == "the same data in network-disk"


def test_another_storage_is_not_compared(project: Project) -> None:
    """A baseline without a storage is not comparable."""
    project.record()
    project.sessions = [PLACED]
    result = project.compare(STORAGE)
    line_with(result, "NOT_COMPARED", "it was measured in no stand-in for a storage")


def test_a_storage_is_not_recorded(project: Project) -> None:
    """A recording refuses the flag, because the times are derived."""
    result = project.run(STORAGE, "--netpipe-record", "first")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "--netpipe-storage", "times are derived", "network-disk")
    assert not project.baselines


def test_an_unknown_storage_is_a_usage_error(project: Project) -> None:
    """The message lists the storages."""
    result = project.run("--netpipe-storage", "bucket")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "storage must be one of local-nvme", "found 'bucket'")


def test_results_say_that_they_are_derived(project: Project) -> None:
    """The terminal's table, JUnit and JSON name the storage."""
    project.has(NO_STALL)
    project.sessions = [PLACED]
    result = project.run(STORAGE, "--junitxml", "junit.xml", "--netpipe-json", "run.json")
    line_with(result, "in network-disk", "healthy")
    line_with(result, "(derived)")
    case = next(ElementTree.parse(project.pytester.path / "junit.xml").iter("testcase"))
    properties = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert properties["netpipe_storage"] == "network-disk"
    (measured,) = project.read_json("run.json")["measurements"]
    assert measured["storage"] == "network-disk"
