"""The study of `netpipe history`."""

import numpy as np

from perf_tests.studies import history
from tests.measurements import make_measurement


def test_a_change_counts_once_however_often_it_is_seen() -> None:
    """Histories are looked at after each commit."""
    rng = np.random.default_rng(0)
    levels = rng.normal(0, 0.01, 100)
    assert history.count_alarms(levels) == 0
    levels[40:] += 0.2
    assert history.count_alarms(levels) == 1


def test_a_row_has_what_was_false_and_what_was_found() -> None:
    """Noise of 1% hides no drift of 3%; recorded sessions that all differ by 10% do."""
    sessions = [make_measurement(load_s=0.01 * (1.1 if number % 2 else 1)) for number in range(40)]
    rows = {row.split("|")[1].strip(): row for row in history.make_rows(sessions, 2)}
    assert rows["normal, 1.0%"].endswith("| 0.00 | 2 of 2 |")
    assert rows["load_s_per_batch, recorded"].endswith("| 0.00 | 0 of 2 |")
