"""`netpipe history`: results over commits, and where they changed."""

import json
import subprocess
from pathlib import Path

import pytest

from netpipe.history.entries import Entry, append_entries, read_entries
from tests.command import Netpipe
from tests.history.made import TEST, make_entries, make_entry, noisy
from tests.reporting import examples
from tests.reporting.parsed import parsed
from tests.root_process import ROOT


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit, as the current folder."""
    git = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "first")):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(repository: Path) -> Path:
    """The document of a run, in a file."""
    path = repository / "run.json"
    session = {**examples.measurement(load_s=0.012), "test": TEST}
    path.write_text(json.dumps(examples.run(measurements=[session])))
    return path


def test_a_run_is_added_to_its_commit(netpipe: Netpipe, run: Path) -> None:
    """The file is made, and holds the commit that is checked out."""
    for _ in range(2):
        ended = netpipe("history", "add", run, "history.jsonl")
        assert ended.exit_code == 0, ended.output
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    entries = read_entries(Path("history.jsonl"))
    assert [entry.commit for entry in entries] == [head.stdout.strip()] * 2
    assert entries[0].values[TEST]["load_s_per_batch"] == 0.012


def test_a_signed_commit_is_found(netpipe: Netpipe, run: Path, repository: Path) -> None:
    """With log.showSignature, git prints what gpg says before the commit."""

    def git(*words: str, text: str = "") -> str:
        done = subprocess.run(
            ["git", *words], input=text, capture_output=True, text=True, check=True
        )
        return done.stdout

    marks = ("-----BEGIN PGP SIGNATURE-----", " ", " x", " -----END PGP SIGNATURE-----")
    signature = "gpgsig " + "\n".join(marks)
    made = git("cat-file", "commit", "HEAD").replace("\n\n", f"\n{signature}\n\n", 1)
    signed = git("hash-object", "-t", "commit", "-w", "--stdin", text=made).strip()
    git("update-ref", "HEAD", signed)
    (repository / "gpg.sh").write_text("#!/bin/sh\necho 'gpg: Good signature from A' >&2\n")
    (repository / "gpg.sh").chmod(0o755)
    git("config", "gpg.program", str(repository / "gpg.sh"))
    git("config", "log.showSignature", "true")
    assert "Good signature" in git("log", "-1")
    assert netpipe("history", "add", run, "history.jsonl").exit_code == 0
    assert [entry.commit for entry in read_entries(Path("history.jsonl"))] == [signed]


def test_an_unknown_commit_is_refused(netpipe: Netpipe, run: Path) -> None:
    """Nothing is written."""
    ended = netpipe("history", "add", run, "history.jsonl", "--commit", "nowhere")
    assert ended.exit_code != 0
    assert "--commit must be a commit here" in ended.stderr
    assert not Path("history.jsonl").exists()


def test_only_a_run_can_be_added(netpipe: Netpipe, run: Path) -> None:
    """A measurement has no tests."""
    run.write_text(json.dumps(examples.measurement()))
    ended = netpipe("history", "add", run, "history.jsonl")
    assert ended.exit_code != 0
    assert "pytest perf_tests --netpipe-json FILE writes such a document" in ended.stderr


def test_results_are_written_for_another_tool(netpipe: Netpipe, run: Path) -> None:
    """github-action-benchmark takes names, units and values of which smaller ones are better."""
    netpipe("history", "add", run, "history.jsonl", "--benchmark-json", "bench.json")
    rows = json.loads(Path("bench.json").read_text())
    assert {"name": f"{TEST} load_s_per_batch on h200-x1", "unit": "s", "value": 0.012} in rows
    assert all(row.keys() == {"name", "unit", "value"} and row["unit"] for row in rows)
    assert not [row for row in rows if "utilisation" in row["name"]]


def test_a_page_shows_what_changed(netpipe: Netpipe, tmp_path: Path) -> None:
    """The change is printed, and the page has a chart of the metric."""
    history, page = tmp_path / "history.jsonl", tmp_path / "page.html"
    append_entries(history, make_entries(noisy([2.0] * 30 + [2.2] * 10, 0.01)), "FILE")
    ended = netpipe("history", "page", history, "--html", page)
    assert ended.exit_code == 0, ended.output
    assert f"{TEST} h200-x1: load_cpu_ratio rose by 10% (worse) at about 000001eaa" in ended.stdout
    assert "2 in 30 commits, then 2.2 in 10" in ended.stdout
    found = parsed(page.read_text())
    assert {"Worse", "A metric is worse than before."} <= {*found.texts}
    assert any("Each point is a commit" in text for text in found.texts)


def test_a_series_that_has_ended_does_not_make_the_headline(
    netpipe: Netpipe, tmp_path: Path
) -> None:
    """The metric became worse on a host that is no longer used."""
    history, page = tmp_path / "history.jsonl", tmp_path / "page.html"
    values = noisy([2.0] * 30 + [2.2] * 10 + [3.0] * 40, 0.01)
    entries = [
        make_entry(number, {"load_cpu_ratio": value}, host="old" if number < 40 else "new")
        for number, value in enumerate(values)
    ]
    append_entries(history, entries, "FILE")
    assert "(worse)" in netpipe("history", "page", history, "--html", page).stdout
    assert "No worse" in parsed(page.read_text()).texts


@pytest.mark.parametrize(
    ("commits", "printed", "word"),
    [
        (1, "no change in 1 commit; 20 commits are needed to see one", "Too short"),
        (30, "no change in 30 commits\n", "No worse"),
    ],
)
def test_a_page_without_changes(
    netpipe: Netpipe, tmp_path: Path, commits: int, printed: str, word: str
) -> None:
    """A short history is not called fine."""
    history, page = tmp_path / "history.jsonl", tmp_path / "page.html"
    append_entries(history, make_entries(noisy([2.0] * commits, 0.01)), "FILE")
    ended = netpipe("history", "page", history, "--html", page)
    assert printed in ended.stdout
    assert word in parsed(page.read_text()).texts


@pytest.mark.parametrize("entries", [[], [make_entry(1, {})]], ids=["no commit", "no value"])
def test_an_empty_history_is_refused(
    netpipe: Netpipe, tmp_path: Path, entries: list[Entry]
) -> None:
    """The error says how to add a commit."""
    history = tmp_path / "history.jsonl"
    append_entries(history, entries, "FILE")
    ended = netpipe("history", "page", history, "--html", tmp_path / "page.html")
    assert ended.exit_code != 0
    assert "netpipe history add appends some" in ended.stderr


def test_changes_that_are_not_committed_are_told(netpipe: Netpipe, run: Path) -> None:
    """The results may not be those of the commit."""
    subprocess.run(["git", "add", run.name], check=True)
    ended = netpipe("history", "add", run, "history.jsonl")
    assert "the working tree has changes that are not in this commit" in ended.stderr


def test_the_page_of_the_documentation_shows_this_output(netpipe: Netpipe, tmp_path: Path) -> None:
    """The example has 60 commits with noise of 1.2% and a drift of 3% over 20 of them."""
    levels = [1.8 * (1 + 0.03 * min(max((number - 25) / 20, 0), 1)) for number in range(60)]
    history = tmp_path / "history.jsonl"
    append_entries(history, make_entries(noisy(levels, 0.012)), "FILE")
    printed = netpipe("history", "page", history, "--html", tmp_path / "page.html").stdout
    page = (ROOT / "docs" / "history.md").read_text()
    _, *lines = page.partition("```console\n")[2].partition("```")[0].splitlines()
    assert " ".join(lines) == printed.strip()
