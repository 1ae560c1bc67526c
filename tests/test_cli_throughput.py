"""`netpipe throughput` from the command line."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from netpipe.device import host
from netpipe.jobs.targets import Target
from netpipe.results.measurement import Host
from netpipe.throughput import sessions
from netpipe.throughput.figures import Tally
from netpipe.throughput.sessions import Subject
from netpipe.workload.preparation.synthetic import generate
from tests.command import Netpipe, document
from tests.throughput.tallies import make_tally

Asked = list[tuple[list[Subject], int, float]]
Trials = list[tuple[int, float]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    """The calls to measure; each subject gives 1000 tokens/s more than the last."""
    calls: Asked = []

    def measure(
        subjects: Sequence[Subject], rounds: int, seconds: float, _: object
    ) -> list[tuple[Tally, ...]]:
        calls.append((list(subjects), rounds, seconds))
        return [(make_tally(tokens=4000 * (place + 1)),) * rounds for place in range(len(subjects))]

    def measure_beside(
        subjects: Sequence[Subject], other: Subject, rounds: int, seconds: float, *_: object
    ) -> list[tuple[tuple[Tally, Tally], ...]]:
        found = measure([*subjects, other], rounds, seconds, None)
        return [tuple(zip(runs, found[-1], strict=True)) for runs in found[:-1]]

    monkeypatch.setattr(sessions, "measure_in_turns", measure)
    monkeypatch.setattr(sessions, "measure_duets", measure_beside)
    monkeypatch.setenv("NETPIPE_DATA", str(tmp_path))
    return calls


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Trials:
    """The workers and seconds of each trial; more than 2 workers are not faster."""
    calls: Trials = []

    def measure(subject: Subject, seconds: float) -> Tally:
        workers = subject.workers
        assert workers is not None
        calls.append((workers, seconds))
        return make_tally(
            tokens=10**6 * (1 + min(2, workers)), peak_pss_bytes=10**8 * (1 + workers)
        )

    monkeypatch.setattr(sessions, "measure_once", measure)
    monkeypatch.setattr(host, "this_host", lambda: Host("x", 4, 2 * 10**9))
    return calls


def test_it_measures_for_real(netpipe: Netpipe, tmp_path: Path) -> None:
    """`throughput --json` prints only a valid document; the loader has one worker."""
    generate(tmp_path / "data", probes=30)
    (tmp_path / "config.toml").write_text("[pipeline]\nsequence_length = 64\nepochs = 1\n")
    result = netpipe(
        "throughput", "--data", tmp_path / "data", "--config", tmp_path / "config.toml",
        "--batch-size", "4", "--workers", "1", "--rounds", 1, "--seconds", 0.2, "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    (combination,) = document(result, "throughput.1.json")["combinations"]
    assert combination["workers"] == 1
    (run,) = combination["runs"]
    assert run["slots"] == 4 * 64 * run["batches"]
    assert 0 < run["tokens"] <= run["slots"]
    assert run["bytes_read"] > run["tokens"] / 100
    assert run["wall_s"] >= 0.2


def test_the_default_is_a_real_training_batch(
    netpipe: Netpipe, asked: Asked, tmp_path: Path
) -> None:
    """Sequences of 1024 tokens, batches of 128, two workers, five rounds of four seconds."""
    result = netpipe("throughput")
    assert result.exit_code == 0, result.stderr
    (((combination,), rounds, seconds),) = asked
    data, pipeline = combination.target.arguments
    assert (data, combination.data) == (str(tmp_path), tmp_path)
    for settings in (pipeline, vars(combination)):
        assert (settings["sequence_length"], settings["batch_size"]) == (1024, 128)
    assert combination.workers == 2
    assert (rounds, seconds) == (5, 4.0)
    assert "rounds: 5, fresh processes in each: 1," in result.stderr


def test_lists_are_all_combinations(netpipe: Netpipe, asked: Asked) -> None:
    """The other loader is beside every combination, and its figures are in its own row."""
    result = netpipe(
        "throughput", "--batch-size", "256,512", "--workers", "0,2", "--against", "plain.py:loader",
        "--rounds", 3, "--seconds", 1.5, "--start-limit", 900,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    ((subjects, rounds, seconds),) = asked
    assert {subject.limits["start_limit_s"] for subject in subjects} == {900.0}
    assert [subject.label for subject in subjects] == [
        "batch 256, 0 workers", "batch 256, 2 workers", "batch 512, 0 workers",
        "batch 512, 2 workers", "plain.py:loader",
    ]  # fmt: skip
    assert (rounds, seconds) == (3, 1.5)
    assert result.stdout.count("/ other") == 4
    assert "other: plain.py:loader" in result.stdout
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert [line[:9] for line in lines if line.startswith("other")] == ["other 5 k", "other: pl"]
    assert "512 * 2 4 k" in [line[:11] for line in lines]
    assert "rounds: 3, fresh processes in each: 8," in result.stderr


def test_a_repeated_value_is_measured_once(netpipe: Netpipe, asked: Asked) -> None:
    """Each combination is measured once, without an end of the data."""
    netpipe("throughput", "--batch-size", "256,512,256", "--workers", "2")
    ((subjects, _, _),) = asked
    assert [subject.batch_size for subject in subjects] == [256, 512]
    assert [subject.target.arguments[1]["epochs"] for subject in subjects] == [None, None]


def test_any_loader_can_be_measured(netpipe: Netpipe, asked: Asked, trials: Trials) -> None:
    """--loader names it; its workers are given, or chosen by trials."""
    result = netpipe(
        "throughput", "--loader", "their.py:loader", "--workers", "1,4", "--batch-limit", 30
    )
    assert result.exit_code == 0, result.stderr
    target, limits = Target("their.py", "loader"), {"batch_limit_s": 30.0, "start_limit_s": 600.0}
    assert asked[0][0] == [Subject(target, 1, limits=limits), Subject(target, 4, limits=limits)]
    result = netpipe("throughput", "--loader", "their.py:loader", "--workers", "auto", "--json")
    assert result.exit_code == 0, result.stderr
    assert [workers for workers, _ in trials[:3]] == [1, 2, 4]
    ((subject,), *_) = asked[1]
    assert (subject.target, subject.workers) == (target, 2)
    made = document(result, "throughput.1.json")
    assert (made["data"], made["combinations"][0]["loader"]) == (None, "their.py:loader")


def test_a_configuration_file_is_used(netpipe: Netpipe, asked: Asked, tmp_path: Path) -> None:
    """Sequence, batch and seed are those of the file; options take precedence."""
    config = tmp_path / "config.toml"
    config.write_text("[pipeline]\nsequence_length = 512\nbatch_size = 64\nseed = 7\n")
    assert netpipe("throughput", "--config", config, "--workers", "3").exit_code == 0
    (((combination,), _, _),) = asked
    _, pipeline = combination.target.arguments
    assert (pipeline["sequence_length"], pipeline["batch_size"], pipeline["seed"]) == (512, 64, 7)
    assert combination.workers == 3


def test_workers_are_chosen_by_trials(netpipe: Netpipe, asked: Asked, trials: Trials) -> None:
    """The chosen number is then measured, and both trials and measurement are reported."""
    result = netpipe("throughput", "--workers", "auto", "--batch-size", "256", "--rounds", 3)
    assert result.exit_code == 0, result.stderr
    assert trials == [(workers, 1.0) for workers in (1, 2, 4, 4, 2, 1, 1, 2, 4)]
    (((combination,), rounds, seconds),) = asked
    assert (combination.workers, combination.batch_size) == (2, 256)
    assert (rounds, seconds) == (3, 4.0)
    assert "memory budget: 1000 MB" in result.stderr
    assert re.search("trials: 3 .* 3 rounds", result.stderr)
    assert re.search("1 worker, .*round 3:", result.stderr)
    assert "2 workers: 750 k tokens/s; 4 give" in result.stdout
    assert "[pipeline]\nworkers = 2\n" in result.stdout


def test_the_choice_is_in_the_document(netpipe: Netpipe, asked: Asked, trials: Trials) -> None:
    """The document lists a candidate that the budget excluded; trials may be short."""
    result = netpipe(
        "throughput", "--workers", "auto", "--memory-budget", "350MB", "--seconds", 0.5, "--json"
    )
    assert result.exit_code == 0, result.stderr
    choice = document(result, "throughput.1.json")["choice"]
    assert trials == [(workers, 0.5) for workers in (1, 2, 2, 1, 1, 2)]
    (((combination,), _, _),) = asked
    assert combination.workers == 2
    assert (choice["workers"], choice["memory_budget_bytes"]) == (2, 350_000_000)
    fates = {each["workers"]: each["fate"] for each in choice["candidates"]}
    assert fates == {1: "slower", 2: "chosen", 4: "over budget"}
    assert re.search("4 workers, .*round 1: .*500 MB", result.stderr)


@pytest.mark.usefixtures("trials")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--workers", "auto,2"),
            "--workers: value .*whole numbers.*, or auto alone; found 'auto,2'",
        ),
        (
            ("--workers", "auto", "--batch-size", "64,128"),
            "--batch-size: value .*one.* --workers auto.*'64,128'",
        ),
        (
            ("--workers", "2", "--memory-budget", "4GB"),
            "--memory-budget: option .*--workers auto.*--workers 2",
        ),
        (("--memory-budget", "4GB"), "--memory-budget: .*no --workers"),
        (("--workers", "auto", "--memory-budget", "4"), "--memory-budget: value .*GB.*'4'"),
        (("--workers", "auto", "--memory-budget", "50MB"), "--memory-budget: .*200 MB.*50 MB"),
    ],
)
def test_options_that_do_not_go_with_auto_are_refused(
    netpipe: Netpipe, asked: Asked, words: tuple[str, ...], message: str
) -> None:
    """The error names option and value, and nothing is measured."""
    result = netpipe("throughput", *words)
    assert result.exit_code == 2
    assert re.search(message, result.stderr)
    assert asked == []
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--batch-size", "128,0"), "--batch-size: value .*1, .*'128,0'"),
        (("--batch-size", "many"), "--batch-size: value .*'many'"),
        (("--batch-size", ""), "--batch-size: value .*''"),
        (("--workers", "1,-1"), "--workers: value .* 0, .*'1,-1'"),
        (("--rounds", "0"), "--rounds.*0 is not in the range x>=1"),
        (("--seconds", "0"), "--seconds.*0.* is not in the range 0<x<inf"),
        (("--seconds", "inf"), "--seconds.*inf is not in the range"),
        (("--config", "nowhere.toml"), r"nowhere\.toml: file"),
        (("--loader", "a.py:b", "--batch-size", "4"), "--batch-size: .*absent with --loader.*'4'"),
        (("--same-batches", "2"), "--same-batches: .*go with --against; found no --against"),
        (("--against", "a.py:b", "--same-batches", "-1"), "--same-batches.*-1 is not in the range"),
    ],
)
def test_bad_values_are_refused(
    netpipe: Netpipe, asked: Asked, words: tuple[str, ...], message: str
) -> None:
    """The error names option and value, and nothing is measured."""
    result = netpipe("throughput", *words)
    assert result.exit_code == 2
    assert re.search(message, result.stderr)
    assert asked == []
    assert result.stdout == ""


@pytest.mark.parametrize("words", [(), ("--workers", "auto"), ("--against", "a:b")])
def test_quiet_leaves_standard_error_empty(
    netpipe: Netpipe, asked: Asked, trials: Trials, words: tuple[str, ...]
) -> None:
    """--quiet prints the result alone, and needs no terminal for it."""
    loader = ("--loader", "a:c") if "--against" in words else ()
    shown = netpipe("throughput", "--rounds", "1", *loader, *words)
    quiet = netpipe("throughput", "--rounds", "1", *loader, *words, "--quiet")
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    assert shown.stderr
    assert quiet.stdout == shown.stdout
    assert asked
    assert bool(trials) is ("auto" in words)
