"""The process of a session: it finds the test that its run has collected, and refuses nonsense."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from netpipe.errors import NoSuchTestError
from netpipe.jobs.registry import run_job
from netpipe.jobs.request import read_result
from netpipe.plugin import session_plugin
from tests.plugin.project import INI, LOAD_TIME, Project, line_with

MARKED = f"\n    import pytest\n    pytestmark = pytest.mark.perf\n{LOAD_TIME}"
DESELECTING = """
    def pytest_collection_modifyitems(config, items):
        if config.option.markexpr != "perf":
            config.hook.pytest_deselected(items=list(items))
            items.clear()
"""
SKIPPING = """
    import pytest

    def pytest_collection_modifyitems(config, items):
        if "perf" not in config.option.markexpr.split():
            for item in items:
                item.add_marker(pytest.mark.skip(reason="slow"))
"""
PREFETCHING = """
    import grain
    import pytest

    @pytest.fixture
    def pipeline():
        return grain.MapDataset.range(9).mp_prefetch()
"""
Serve = Callable[..., pytest.RunResult]


@pytest.fixture
def session(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Serve:
    """Return a function that runs a project's tests, then its last session in this process."""
    monkeypatch.setattr(session_plugin, "run_job", lambda *_: print("the test was measured"))  # noqa: T201

    def serve(*flags: str) -> pytest.RunResult:
        project.run(*flags)
        request = replace(project.requests[-1], result=str(tmp_path / "result.json"))
        with monkeypatch.context() as process:
            process.setenv("NETPIPE_SESSION", request.to_json())
            return project.run(*project.commands[-1][3:], "-s")

    return serve


@pytest.mark.parametrize(
    ("addopts", "flags"),
    [
        ('-m "not perf"', "-m perf"),
        ("-k nothing", "-k load"),
        ("-m nothing -k nothing", "-m perf perf -k test_load_time or test_nothing"),
        ("--strict-markers -n 1 --dist loadgroup", ""),
        ("-n 1 --benchmark-only", "-n 0"),
        ("-p no:randomly -x --sw", ""),
        ("--lf", "--cache-clear"),
        ("--junitxml=run.xml --ignore=perf", "perf"),
    ],
)
def test_a_session_finds_the_test_of_its_run(
    project: Project, session: Serve, addopts: str, flags: str
) -> None:
    """The flags of the run override addopts that would deselect the test."""
    project.pytester.makeini(f"{INI.rstrip()} {addopts}\nmarkers = perf\n")
    project.pytester.path.joinpath("test_perf.py").unlink()
    folder = project.pytester.mkdir("perf")
    folder.joinpath("test_perf.py").write_text(MARKED.replace("\n    ", "\n"))
    words = flags.split(" -k ")
    expression = ["-k", words[1]] if words[1:] else []
    result = session(*words[0].split(), *expression)
    line_with(result, "the test was measured")


@pytest.mark.parametrize("hook", [DESELECTING, SKIPPING], ids=["deselects", "skips"])
def test_a_conftest_that_wants_a_marker_leaves_the_session_its_test(
    project: Project, session: Serve, hook: str
) -> None:
    """A conftest sees the -m of the run, and cannot deselect what the run has selected."""
    project.has(MARKED)
    project.has(hook, "plugin_of_the_project")
    project.pytester.makeini(f"{INI.rstrip()} -p plugin_of_the_project\nmarkers = perf\n")
    project.pytester.syspathinsert()
    line_with(session("-m", "perf"), "the test was measured")


def test_a_deselected_test_is_served(project: Project, session: Serve) -> None:
    """A conftest that deselects by a variable of the run, for instance, does not end a session."""
    hook = DESELECTING.replace('config.option.markexpr != "perf"', '"NETPIPE_SESSION" in environ')
    project.has(f"\n    from os import environ\n{hook}", "plugin_of_the_project")
    project.pytester.makeini(f"{INI.rstrip()} -p plugin_of_the_project\n")
    project.pytester.syspathinsert()
    line_with(session(), "the test was measured")


def test_a_name_with_two_slashes_is_found(project: Project, session: Serve) -> None:
    """The name of a parametrized test, such as gs://bucket, is not changed like a path."""
    project.has("""
        import pytest

        @pytest.mark.parametrize("url", ["gs://bucket/./a"])
        def test_load_time(netpipe_benchmark, url):
            netpipe_benchmark("load_s_per_batch")
    """)
    line_with(session(), "the test was measured")


def test_a_session_leaves_the_log_file_of_its_run(project: Project, session: Serve) -> None:
    """Neither a flag nor an ini key makes the session write that file again."""
    project.has("""
        import logging

        def test_load_time(netpipe_benchmark):
            netpipe_benchmark("load_s_per_batch")
            logging.warning("of the run")
    """)
    project.pytester.makeini(f"{INI.rstrip()}\nlog_file = ini.log\n")
    session()
    session("--log-file=flag.log")
    for name in ("ini.log", "flag.log"):
        assert "of the run" in (project.pytester.path / name).read_text()


def test_the_command_that_repeats_a_comparison_selects_its_test(project: Project) -> None:
    """It has the -m of the run, because another one in addopts would deselect the test."""
    project.has(MARKED)
    project.pytester.makeini(f'{INI.rstrip()} -m "not perf"\nmarkers = perf\n')
    project.run("-m", "perf", "--netpipe-record=first", "--netpipe-sessions=3")
    project.sessions = [replace(project.sessions[0], load_s_per_batch=replace(
        project.sessions[0].load_s_per_batch, median=9.0, low=9.0, high=9.0))]  # fmt: skip
    line_with(project.compare("-m", "perf"), "--benchmark-compare -m perf")


@pytest.mark.parametrize(
    "text", ["1", "nonsense", "[]", "{}", '{"kind": "measure"}', '{"kind": "dance", "result": "x"}',
             '{"kind": "measure", "budget_s": "long"}', "[" * 99_999],
)  # fmt: skip
def test_a_session_set_by_hand_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """A variable NETPIPE_SESSION that netpipe has not set is a usage error of one line."""
    monkeypatch.setenv("NETPIPE_SESSION", text)
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert len(result.errlines) <= 2
    line_with(result, "ERROR: NETPIPE_SESSION", "Unset it")


def test_a_fixture_that_fails_is_described_as_a_loader_that_fails(
    project: Project, session: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A pipeline that a fixture makes is answered in the first line, without pytest's output."""
    monkeypatch.setattr(session_plugin, "SUBJECT_FIXTURES", ("pipeline",))
    monkeypatch.setattr(session_plugin, "run_job", run_job)
    project.has(PREFETCHING + LOAD_TIME)
    session()
    error = json.loads((tmp_path / "result.json").read_text())["error"]
    assert error["kind"] == "failed"
    first, *lines = error["message"].splitlines()
    assert re.search(r"; write .to_iter_dataset\(.*\).mp_prefetch\(", first)
    assert "test_perf.py" in lines[-2]
    assert lines[-1].strip() == "return grain.MapDataset.range(9).mp_prefetch()"


def test_a_test_that_this_version_skips_is_missing(
    project: Project, session: Serve, tmp_path: Path
) -> None:
    """Another version may skip the test; then there is nothing to compare with."""
    skipped = 'pytest.mark.skipif("NETPIPE_SESSION" in os.environ, reason="not yet")'
    project.has(f"\n    import os\n    import pytest\n    pytestmark = {skipped}\n{LOAD_TIME}")
    session()
    with pytest.raises(NoSuchTestError, match="skipped"):
        read_result(tmp_path / "result.json")


def test_a_session_writes_no_report_of_the_run(project: Project, session: Serve) -> None:
    """The files that other plugins write for the whole run are left to it."""
    project.has(
        """
        import os

        def pytest_addoption(parser):
            parser.addoption("--report-log")

        def pytest_configure(config):
            if config.option.report_log and "NETPIPE_SESSION" in os.environ:
                print("the report of the run is overwritten")
        """,
        "plugin_of_the_project",
    )
    project.pytester.makeini(f"{INI.rstrip()} -p plugin_of_the_project\n")
    project.pytester.syspathinsert()
    result = session("--report-log=log.jsonl")
    line_with(result, "the test was measured")
    result.stdout.no_fnmatch_line("*overwritten*")
