"""Slowdowns, their sessions, and the table of the gate's decisions on them."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from netpipe.gate.outcomes import Outcome
from netpipe.jobs.targets import Target, resolve
from netpipe.results.measurement import Rounds
from netpipe.workload.step import train
from perf_tests.studies.gate_power import slowdowns
from perf_tests.studies.gate_power.__main__ import main
from perf_tests.studies.gate_power.decisions import Decision
from perf_tests.studies.gate_power.live import Session, append_session, read_sessions
from perf_tests.studies.gate_power.rates import Row, format_table
from perf_tests.studies.gate_power.slowdowns import Slowdown
from perf_tests.studies.gate_power.trials import group_by_trial
from perf_tests.studies.proportions import Proportion
from tests.measurements import make_measurement

NOTHING, CPU = Slowdown(), Slowdown("cpu", 23)


def make_sessions(*slowdowns: Slowdown) -> list[Session]:
    """Make a session of each."""
    return [Session(slowdown, make_measurement()) for slowdown in slowdowns]


def test_more_sequences_are_more_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The preset's number of sequences does not limit the step."""
    asked = []

    def make_step(_: object, tokens: int, sequences: int) -> tuple[None, None]:
        asked.append((tokens, sequences))
        return None, None

    monkeypatch.setattr(train, "make_step", make_step)
    for sequences in (20, 21):
        Slowdown("sequences", sequences, "gpu_").step()
    assert asked == [(1024, 20), (1024, 21)]


@pytest.mark.parametrize("name", ["loader_cpu_13", "step_none_0", "loader_wait_200"])
def test_a_target_names_the_slowdown(name: str) -> None:
    """A target resolves to the loader or the step of a slowdown."""
    found = resolve(Target.parse(f"{slowdowns.__name__}:{name}"))
    assert found.__self__ == Slowdown(  # type: ignore[attr-defined]  # a bound method
        name.split("_")[1], int(name.split("_")[2])
    )
    assert found.__name__ == name.split("_")[0]


def test_sessions_are_kept_without_their_rounds(tmp_path: Path) -> None:
    """A file has the sessions in order, with everything that the gate reads."""
    path = tmp_path / "sessions.jsonl.gz"
    for session in make_sessions(NOTHING, CPU):
        append_session(path, session)
    kept = read_sessions(path)
    assert [session.slowdown for session in kept] == [NOTHING, CPU]
    assert kept[0].measurement.rounds == Rounds()
    assert kept[0].measurement.load_cpu_ratio == make_measurement().load_cpu_ratio


def test_pairs_are_sessions_in_a_row() -> None:
    """A session is in at most one pair of its trial."""
    kept = make_sessions(NOTHING, CPU, CPU, NOTHING, NOTHING, NOTHING)
    found = {group.trial.name: group for group in group_by_trial(kept)}
    assert set(found) == {"nothing", "loader CPU, 10%"}
    assert len(found["loader CPU, 10%"].pairs) == 2
    assert found["loader CPU, 10%"].pairs[1].base is kept[3].measurement
    assert len(found["nothing"].pairs) == 1
    assert len(found["nothing"].before) == 4


def test_a_proportion_is_no_surer_than_its_sessions() -> None:
    """3,000 decisions on 6 sessions are worth 6: all found may still be six in ten."""
    proportion = Proportion(found=3000, total=3000, independent=6)
    assert proportion.fraction == 1
    assert 0.5 < proportion.interval[0] < 0.7
    assert str(proportion) == "100.0% (61 to 100)"


def test_the_table_counts_every_outcome() -> None:
    """The table has found, open, and the sessions per decision."""
    decisions = [
        Decision(Outcome.REGRESSED, "load_cpu_ratio", 2),
        Decision(Outcome.INCONCLUSIVE, "step_s", 5),
        Decision(Outcome.PASS, "step_s", 1),
        Decision(Outcome.PASS, "step_s", 4),
    ]
    row = Row("loader CPU, 10%", "1.100 x load_cpu_ratio", decisions, 4)
    *_, line = format_table([row])
    assert "| 25.0% (5 to 70) | 25.0% (5 to 70) | 3.0 |" in line
    assert not row.raises_false_alarms
    assert Row("nothing", "", decisions, 4, is_identical=True).raises_false_alarms


def test_the_command_replays_what_was_kept(tmp_path: Path) -> None:
    """A trial of 20 sessions has a row for each way to decide; identical code exits with 0."""
    path = tmp_path / "sessions.jsonl.gz"

    def replay(*slowdowns: Slowdown) -> Result:
        for session in make_sessions(*slowdowns):
            append_session(path, session)
        return CliRunner().invoke(main, ["--sessions", str(path), "--decisions", "5"])

    result = replay(*[NOTHING] * 24, *[CPU, NOTHING] * 19)
    assert result.exit_code == 0, result.output
    assert result.stdout.count("| nothing, ") == 2
    assert "loader CPU" not in result.stdout
    assert "| loader CPU, 10%, stored baseline |" in replay(CPU, NOTHING).stdout
