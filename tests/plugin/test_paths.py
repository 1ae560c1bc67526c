"""Lost benchmarks with paths that are written in different ways."""

import re
from pathlib import Path

import pytest

from tests.plugin.project import LOAD_TIME, Project, lost

GONE = """
    import pytest

    class TestLoading:
        def test_kept(self, netpipe_benchmark):
            netpipe_benchmark("load_s_per_batch")

        @pytest.mark.parametrize("size", [1, 2])
        def test_gone(self, netpipe_benchmark, size):
            netpipe_benchmark("load_s_per_batch")
"""


@pytest.fixture
def here(project: Project) -> Path:
    """The folder of a project with a baseline in `perf_tests`, where some benchmarks are gone."""
    folder = project.pytester.mkpydir("perf_tests")
    (folder / "__init__.py").unlink()
    (project.pytester.path / "test_perf.py").unlink()
    file = project.has(GONE, "test_moved").rename(folder / "test_perf.py")
    project.record()
    file.write_text(file.read_text().replace('"size", [1, 2]', '"size", [1]'))
    project.has(LOAD_TIME, "test_outside")
    return project.pytester.path


@pytest.fixture
def link(here: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A link to the project's folder."""
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(here)
    return link


def assert_lost(project: Project, *arguments: str) -> None:
    """Compare with these arguments, and expect the lost benchmark to be listed."""
    result = project.compare(*arguments, "--netpipe-missing=fail")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    gone = r"perf_tests/test_perf\.py::.*test_gone"
    assert any(re.match(gone, name) for name in lost(result))


def test_through_a_link_the_lost_are_missed(project: Project, link: Path) -> None:
    """An absolute path through a link names the same folder as the one without."""
    for path in ("", "perf_tests", "perf_tests/test_perf.py"):
        assert_lost(project, str(link / path))


def test_root_and_path_may_differ_by_a_link(project: Project, here: Path, link: Path) -> None:
    """The root is given through a link and the path without it, or vice versa."""
    for root, given in ((here, link), (link, here)):
        assert_lost(project, f"--rootdir={root}", str(given / "perf_tests"))


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("", "./perf_tests"),
        ("", "."),
        ("perf_tests", "."),
        ("perf_tests", "../perf_tests"),
        ("perf_tests", "test_perf.py"),
        ("perf_tests", ""),
        ("", "perf_tests/test_perf.py::TestLoading"),
        ("", "perf_tests/test_perf.py::TestLoading::test_gone"),
    ],
)
def test_wherever_it_is_run_the_lost_are_missed(
    project: Project,
    here: Path,
    link: Path,
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
    path: str,
) -> None:
    """The run starts in any folder, and names a folder, a file, a class or a test."""
    for root in (here, link):
        monkeypatch.chdir(root / folder)
        assert_lost(project, *([path] if path else []))


def test_a_linked_folder_of_baselines_is_one(project: Project, here: Path, tmp_path: Path) -> None:
    """Baselines behind a link are found."""
    (here / "baselines").rename(tmp_path / "elsewhere")
    (here / "baselines").symlink_to(tmp_path / "elsewhere")
    assert_lost(project, "perf_tests")
