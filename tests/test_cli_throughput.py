"""`netpipe throughput` from the command line."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from netpipe.data.synthetic import generate
from netpipe.throughput import turns
from netpipe.throughput.figures import Tally
from netpipe.throughput.subjects import Combination, Foreign, Subject
from tests.command import Netpipe, document
from tests.throughput.tallies import make_tally

Asked = list[tuple[list[Subject], int, float]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    """What is to be measured; nothing is. The next one always gives 1000 tokens a second more."""
    calls: Asked = []

    def measure(
        subjects: Sequence[Subject], rounds: int, seconds: float, _: object
    ) -> list[tuple[Tally, ...]]:
        calls.append((list(subjects), rounds, seconds))
        return [(make_tally(tokens=4000 * (place + 1)),) * rounds for place in range(len(subjects))]

    monkeypatch.setattr(turns, "measure_in_turns", measure)
    monkeypatch.setenv("NETPIPE_DATA", str(tmp_path))
    return calls


def test_it_measures_for_real(netpipe: Netpipe, tmp_path: Path) -> None:
    """`throughput --json` prints a valid document, of both combinations, and nothing else."""
    generate(tmp_path / "data", probes=30)
    (tmp_path / "config.toml").write_text("[pipeline]\nsequence_length = 64\nepochs = 1\n")
    result = netpipe(
        "throughput", "--data", tmp_path / "data", "--config", tmp_path / "config.toml",
        "--batch-size", "4", "--workers", "0,1", "--rounds", 1, "--seconds", 0.2, "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    alone, with_worker = document(result, "throughput.1.json")["combinations"]
    assert (alone["workers"], with_worker["workers"]) == (0, 1)
    for one in (alone, with_worker):
        (run,) = one["runs"]
        assert run["slots"] == 4 * 64 * run["batches"]
        assert 0 < run["tokens"] <= run["slots"]
        assert run["bytes_read"] > run["tokens"] / 100
        assert run["wall_s"] >= 0.2
    assert "0 workers: 1 thread x 2 batches" in result.stderr


def test_the_default_is_a_real_training_batch(
    netpipe: Netpipe, asked: Asked, tmp_path: Path
) -> None:
    """Sequences of 1024 tokens, batches of 128, two workers, five rounds of four seconds."""
    result = netpipe("throughput")
    assert result.exit_code == 0, result.stderr
    (((combination,), rounds, seconds),) = asked
    assert isinstance(combination, Combination)
    pipeline = combination.pipeline
    assert combination.data == tmp_path
    assert (pipeline.sequence_length, pipeline.batch_size, pipeline.workers) == (1024, 128, 2)
    assert (rounds, seconds) == (5, 4.0)
    assert "2 workers x 2 batches x 0.26 MB = 1 MB of finished batches" in result.stderr
    assert "rounds: 5, runs in each: 1, every one a fresh process" in result.stderr
    assert "finished batches" not in result.stdout


def test_lists_are_all_combinations(netpipe: Netpipe, asked: Asked) -> None:
    """What is compared with goes first in every round, and its figures are the other's."""
    result = netpipe(
        "throughput", "--batch-size", "256,512", "--workers", "0,2", "--against", "plain.py:loader",
        "--rounds", 3, "--seconds", 1.5,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    ((subjects, rounds, seconds),) = asked
    assert [one.label for one in subjects] == [
        "plain.py:loader", "batch 256, 0 workers", "batch 256, 2 workers", "batch 512, 0 workers",
        "batch 512, 2 workers",
    ]  # fmt: skip
    assert isinstance(subjects[0], Foreign)
    assert (rounds, seconds) == (3, 1.5)
    assert result.stdout.count("/ other") == 4
    assert "other: plain.py:loader" in result.stdout
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert [line[:9] for line in lines if line.startswith("other")] == ["other 1 k", "other: pl"]
    assert "512 * 2 5 k" in [line[:11] for line in lines]


def test_a_configuration_is_taken_whole(netpipe: Netpipe, asked: Asked, tmp_path: Path) -> None:
    """Its sequence, its batch and its seed; the options go before it."""
    config = tmp_path / "config.toml"
    config.write_text("[pipeline]\nsequence_length = 512\nbatch_size = 64\nseed = 7\n")
    assert netpipe("throughput", "--config", config, "--workers", "3").exit_code == 0
    (((combination,), _, _),) = asked
    assert isinstance(combination, Combination)
    pipeline = combination.pipeline
    assert (pipeline.sequence_length, pipeline.batch_size, pipeline.seed) == (512, 64, 7)
    assert pipeline.workers == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--batch-size", "128,0"), "at least 1, with commas between them; found '128,0'"),
        (("--batch-size", "many"), "--batch-size: value must be whole numbers of at least 1"),
        (("--batch-size", ""), "--batch-size: value must be whole numbers of at least 1"),
        (("--workers", "1,-1"), "--workers: value must be whole numbers of at least 0"),
        (("--rounds", "0"), "--rounds: value must be at least 1; found 0"),
        (("--seconds", "0"), "--seconds: value must be above 0, and finite; found 0"),
        (("--seconds", "inf"), "--seconds: value must be above 0, and finite; found inf"),
        (("--config", "nowhere.toml"), "nowhere.toml: file must be readable"),
    ],
)
def test_bad_values_are_told(
    netpipe: Netpipe, asked: Asked, words: tuple[str, ...], said: str
) -> None:
    """Option, constraint and value, in one line, before anything is measured."""
    result = netpipe("throughput", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert asked == []
    assert result.stdout == ""
