"""The plugin does nothing in a project that does not use it."""

import json
import re
import subprocess
import sys

import pytest

from tests.plugin.project import leave_xdist

TESTS = '''
    """Tests of every kind that pytest runs by itself."""

    import unittest

    import pytest

    class Case(unittest.TestCase):
        def test_unit(self):
            self.assertEqual(1, 1)

    @pytest.mark.parametrize("number", [1, 2])
    def test_number(number):
        assert number == 1

    def double(number):
        """Double.

        >>> double(2)
        4
        """
        return 2 * number
'''
BENCHMARKS = """
    def test_speed(benchmark):
        benchmark.pedantic(lambda: None, rounds=3)
"""
CONFTEST = """
    import json
    import sys
    from pathlib import Path

    def pytest_benchmark_generate_machine_info():
        return {"node": "testing", "cpu": {"brand_raw": "Testing CPU"}}

    def pytest_benchmark_generate_commit_info():
        return {"id": "0123456789"}
"""
TIMES = re.compile(r"\d[\d.,]*( \(\d[\d.]*\))?|\(time in \w+\)|\s+|-{2,}|={2,}|0x[0-9a-f]+")


@pytest.fixture
def foreign(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project that does not use netpipe."""
    leave_xdist(monkeypatch)
    pytester.makeini("[pytest]\naddopts = -p no:hypothesispytest --doctest-modules\n")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    return pytester


def observe(project: pytest.Pytester, *arguments: str) -> tuple[object, ...]:
    """Run pytest; return its exit code, what it prints apart from times, and its files."""
    result = project.runpytest_inprocess(*arguments, no_reraise_ctrlc=True)
    printed = [
        TIMES.sub(" ", line)
        for line in (*result.outlines, *result.errlines)
        if not line.startswith(("plugins:", "rootdir:"))
    ]
    paths = project.path.rglob("*")
    files = sorted(str(path.relative_to(project.path)) for path in paths if path.suffix != ".pyc")
    return int(result.ret), printed, files


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "-p no:benchmark",
        "-p no:cacheprovider -p no:terminal -p no:junitxml -p no:xdist -p no:logging",
        "-p no:capture -p no:doctest -p no:unittest",
        "--version",
        "--collect-only -q",
        "--fixtures-per-test",
        "--setup-show",
        "--setup-plan -p no:doctest",
        "--lf -x",
        "--sw --sw-reset",
        "-n 1 --dist loadgroup",
        "-m perf",
        "--junitxml=run.xml",
    ],
)
def test_a_foreign_project_runs_as_without_the_plugin(
    foreign: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, flags: str
) -> None:
    """Exit code, output and files are those of a run with `-p no:netpipe`."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(foreign.path / "summary.md"))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    observe(foreign)  # Caches are there before both runs.
    without = observe(foreign, "-p", "no:netpipe", *flags.split())
    assert observe(foreign, *flags.split()) == without


@pytest.mark.parametrize(
    "flags",
    [
        "--benchmark-compare",
        "--benchmark-compare=0001 --benchmark-only",
        "--benchmark-only -n 1",
        "--benchmark-skip --benchmark-json=out.json",
        "--benchmark-disable --benchmark-autosave",
    ],
)
def test_foreign_benchmarks_run_as_without_the_plugin(foreign: pytest.Pytester, flags: str) -> None:
    """The flags of pytest-benchmark have the effect that they have without netpipe."""
    foreign.makepyfile(test_speed=BENCHMARKS)
    observe(foreign, "--benchmark-save=mine", "-p", "no:netpipe")
    words = [*flags.split(), "--benchmark-columns=rounds", "--benchmark-sort=name"]
    assert observe(foreign, *words) == observe(foreign, "-p", "no:netpipe", *words)


@pytest.mark.parametrize(
    "conftest",
    [
        "import nothing_of_this_name",
        "def pytest_sessionstart(): raise ValueError('no session')",
        "def pytest_collection_modifyitems(): raise KeyboardInterrupt",
        "def pytest_sessionfinish(): raise ValueError('no end')",
    ],
)
def test_a_broken_conftest_is_reported_as_without_the_plugin(
    foreign: pytest.Pytester, conftest: str
) -> None:
    """A conftest that fails at any time gets no second error from netpipe."""
    foreign.makeconftest(conftest)
    without = observe(foreign, "-p", "no:netpipe")
    assert observe(foreign) == without


def test_a_foreign_project_loads_the_declarations_only(foreign: pytest.Pytester) -> None:
    """The plugin imports few modules, and no other package but pytest."""
    foreign.makeconftest(f"{CONFTEST}\n    def pytest_unconfigure():\n        modules = "
                         "sorted(sys.modules)\n        Path('modules.json').write_text("
                         "json.dumps(modules))\n")  # fmt: skip

    def modules(*flags: str) -> set[str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", *flags]
        subprocess.run(command, cwd=foreign.path, capture_output=True, check=False)
        return set(json.loads((foreign.path / "modules.json").read_text()))

    added = modules() - modules("-p", "no:netpipe")
    assert "netpipe.pytest_plugin" in added
    assert {name.partition(".")[0] for name in added} == {"netpipe"}
    assert "netpipe.plugin.run_plugin" not in added
    assert len(added) < 30
