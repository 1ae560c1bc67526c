"""The table of the study of preparing."""

from dataclasses import replace

from perf_tests.studies.preparing import Trial, format_table

TRIAL = Trial(
    "all cores", 10**7, 10**8, 20.0, 25.0, 600 * 10**6, 400 * 10**6, 10**8, "a model", 2, 1.5, "abc"
)


def test_the_table_has_the_medians_of_each_kind() -> None:
    """The table has a row per arrangement and size, in order, even for partial results."""
    trials = [TRIAL, replace(TRIAL, wall_s=10.0), replace(TRIAL, wall_s=90.0),
              replace(TRIAL, arrangement="one process", rows=10**6)]  # fmt: skip
    assert list(format_table(trials))[2:] == [
        "| one process | 1.0 | 50 | 40 | 600 MB | 400 MB |",
        "| all cores | 10.0 | 500 | 400 | 600 MB | 400 MB |",
    ]
