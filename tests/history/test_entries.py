"""The file of the results of each commit."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from netpipe.errors import InputError
from netpipe.gate.metrics import METRICS
from netpipe.gate.work_baselines import work_key
from netpipe.history.entries import append_entries, list_series, make_entries, read_entries
from tests.history.made import DEVICE, TEST, make_entry
from tests.measurements import CPU, make_measurement
from tests.reporting import examples
from tests.work_profiles import PROFILE, make_profile

COMMIT, DATE = "c" * 40, "2026-11-28T10:00:00+00:00"


def entries_of(**changes: Any) -> list[Any]:
    """Return the entries of a run's document."""
    return make_entries(examples.run(**changes), COMMIT, DATE, "run.json")


def printed(**changes: Any) -> dict[str, Any]:
    """Return a session of a test, as a run prints it."""
    return {**make_measurement(**changes).to_document(), "test": TEST}


def test_a_metric_is_the_median_of_its_sessions() -> None:
    """Each device has an entry with the metrics of each test."""
    sessions = [printed(load_s=load_s) for load_s in (0.010, 0.012, 0.030)]
    (entry,) = entries_of(measurements=sessions)
    assert (entry.commit, entry.date, entry.device) == (COMMIT, DATE, DEVICE)
    assert entry.values[TEST]["load_s_per_batch"] == 0.012
    assert entry.values[TEST].keys() <= METRICS.keys()


def test_a_session_without_a_test_is_kept() -> None:
    """Older documents do not name the tests."""
    session = printed()
    del session["test"]
    (entry,) = entries_of(measurements=[session])
    assert "load_s_per_batch" in entry.values[""]


def test_what_is_never_judged_on_a_device_is_left_out() -> None:
    """On a CPU, a step shares its cores with the loader."""
    (entry,) = entries_of(measurements=[printed(device=CPU)])
    assert "load_cpu_ratio" in entry.values[TEST]
    assert not {"step_s", "train_s_per_step", "accelerator_utilisation"} & {*entry.values[TEST]}


def test_times_beside_busy_programs_are_left_out() -> None:
    """A ratio to a reference loader is kept."""
    (entry,) = entries_of(measurements=[printed(busy_elsewhere_fraction=0.3)])
    assert "load_cpu_ratio" in entry.values[TEST]
    assert not {"load_s_per_batch", "first_batch_s"} & {*entry.values[TEST]}


def test_a_count_that_differs_between_processes_is_not_zero() -> None:
    """Its lowest count is kept."""
    changes = {
        "counts": {**PROFILE.counts, "sent_bytes": {}},
        "dropped": {"sent_bytes": {"": (1e3, 1.2e3)}},
    }
    counted = make_profile(**changes).to_document() | {"test": TEST}
    (entry,) = entries_of(measurements=[], work=[counted])
    assert entry.values[TEST]["sent_bytes"] == 1e3


def test_counts_of_work_belong_to_no_device_but_to_their_packages() -> None:
    """All parts count, whatever a comparison with a baseline would leave out."""
    counted = PROFILE.to_document() | {"test": TEST}
    (entry,) = entries_of(measurements=[], work=[counted])
    assert (entry.device, entry.host) == ("", "")
    assert work_key(PROFILE.versions) in entry.data
    assert entry.values[TEST]["calls"] == PROFILE.total("calls")
    assert not {"contents", "epoch_batches"} & {*entry.values[TEST]}


def test_a_run_without_results_is_refused() -> None:
    """The error names the file."""
    with pytest.raises(InputError, match=r"run\.json: measurements must hold a metric"):
        entries_of(measurements=[])


def test_what_is_read_is_what_was_appended(tmp_path: Path) -> None:
    """Entries follow each other in the order in which they were added."""
    path = tmp_path / "history.jsonl"
    first, second = make_entry(1, {"step_s": 0.1}), make_entry(2, {"step_s": 0.2})
    append_entries(path, [first], "FILE")
    append_entries(path, [second], "FILE")
    assert read_entries(path) == [first, second]
    assert [path.name for path in tmp_path.iterdir()] == ["history.jsonl"]


def test_an_edited_file_can_be_appended_to(tmp_path: Path) -> None:
    """An editor may leave a blank line, and no newline at the end."""
    path = tmp_path / "history.jsonl"
    first, second = make_entry(1, {"step_s": 0.1}), make_entry(2, {"step_s": 0.2})
    path.write_text(f"\n{json.dumps(first.to_document())}")
    append_entries(path, [second], "FILE")
    assert read_entries(path) == [first, second]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 2: line must be JSON"),
        ("[]", "line 2: schema must be netpipe.history/1"),
        (
            json.dumps(make_entry(2, {"step_s": 0.1}).to_document()).replace("2026-", "26-"),
            "line 2: line must be JSON with an ISO 8601 date; found .*26-01",
        ),
        (
            json.dumps(replace(make_entry(2, {}), date="9999-12-31T23:00:00-12:00").to_document()),
            "line 2: line must be JSON with an ISO 8601 date",
        ),
        ('{"schema": "netpipe.history/2"}', "A newer netpipe wrote it"),
        ('{"schema": "netpipe.run/1"}', "netpipe history add writes such a file"),
        (
            json.dumps(make_entry(2, {"step_s": 0.1}).to_document()).replace("0.1", '"slow"'),
            "step_s.* must be of type number; found 'slow'",
        ),
    ],
)
def test_a_damaged_file_is_refused_and_kept(tmp_path: Path, line: str, reason: str) -> None:
    """The error names the file and the line."""
    path = tmp_path / "history.jsonl"
    append_entries(path, [make_entry(1, {"step_s": 0.1})], "FILE")
    path.write_text(before := f"{path.read_text()}{line}\n")
    with pytest.raises(InputError, match=reason) as failed:
        append_entries(path, [make_entry(3, {"step_s": 0.1})], "FILE")
    assert str(path) in str(failed.value)
    assert path.read_text() == before


def test_other_data_or_another_host_begins_another_series() -> None:
    """Utilisation does not depend on the class of the host."""
    metrics = {"load_cpu_ratio": 1.0, "accelerator_utilisation": 0.9}
    entries = [
        make_entry(1, metrics),
        make_entry(2, metrics, host="another"),
        make_entry(3, metrics, data="larger"),
    ]
    found = [(each.metric, len(each.values), each.has_ended) for each in list_series(entries)]
    assert sorted(found) == [
        *[("accelerator_utilisation", 1, False), ("accelerator_utilisation", 2, True)],
        *[("load_cpu_ratio", 1, False), *[("load_cpu_ratio", 1, True)] * 2],
    ]


def test_two_series_of_the_latest_commit_both_go_on() -> None:
    """A commit may be measured with two versions of Python."""
    entries = [make_entry(1, {"step_s": 0.1}, data=data) for data in ("3.11", "3.12")]
    assert [each.has_ended for each in list_series(entries)] == [False, False]


def test_dates_of_other_time_zones_are_compared() -> None:
    """The first commit is the later one as text, but was made four hours earlier."""
    dates = "2026-01-02T01:00:00+09:00", "2026-01-01T20:00:00+00:00"
    made = [replace(make_entry(1, {"step_s": 0.1}), date=date, commit=date) for date in dates]
    (series,) = list_series(reversed(made))
    assert tuple(entry.date for entry in series.commits) == dates


def test_commits_come_in_the_order_of_their_dates() -> None:
    """A commit that is run again does not count twice, nor as the newest."""
    values = [(1, 1.0), (2, 2.0), (3, 5.0), (2, 4.0)]
    (series,) = list_series([make_entry(number, {"step_s": value}) for number, value in values])
    assert series.values == (1.0, 3.0, 5.0)
    assert [each.commit[:7] for each in series.commits] == ["0000001", "0000002", "0000003"]
