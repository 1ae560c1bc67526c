"""The missing trials, and the table of finished ones."""

from perf_tests.studies.reliability.__main__ import find_missing, format_table
from perf_tests.studies.reliability.trials import Trial


def _trial(command: str, disturbance: str, *problems: str) -> Trial:
    return Trial(command, disturbance, "abc", 0.5, (0,), problems, "")


def test_kept_trials_are_not_repeated() -> None:
    """Only the missing trials run, the number of each continuing where the file ends."""
    done = [_trial("prepare", "two at once"), _trial("prepare", "two at once")]
    missing = list(find_missing(done, ["prepare", "ab"], ["two at once"]))
    numbers = {name: [number for command, _, number in missing if command == name]
               for name in ("prepare", "ab")}  # fmt: skip
    assert numbers == {"prepare": [2, 3, 4], "ab": [0, 1, 2, 3, 4]}


def test_the_table_counts_good_trials_and_names_problems() -> None:
    """A cell has the trials without problems, and problems follow with their number."""
    lines = list(format_table([_trial("ab", "SIGKILL"), _trial("ab", "SIGKILL", "torn", "torn")]))
    row = next(line for line in lines if line.startswith("| SIGKILL"))
    assert row == "| SIGKILL | not tried | not tried | 1 of 2 | not tried |"
    assert any("torn (2)" in line for line in lines)
