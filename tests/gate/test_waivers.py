"""Waivers: their scope, and how their file is read."""

from datetime import date
from math import inf
from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.gate.waivers import Waiver, apply_waivers, load
from netpipe.results.measurement import Interval

LAST_DAY = date(2026, 12, 31)
NAME = "perf_tests/test_loading.py::test_load_time"
WAIVER = Waiver(NAME, "load_cpu_ratio", 1.15, "decodes IPv6 options, see #123", LAST_DAY)

TEXT = f"""
[[waiver]]
benchmark = "{NAME}"
metric = "load_cpu_ratio"
bound = 1.15
reason = "decodes IPv6 options, see #123"
expires = 2026-12-31
"""


def compared(
    worse_ratio: float = 1.12,
    metric: str = "load_cpu_ratio",
    outcome: Outcome = Outcome.REGRESSED,
) -> Comparison:
    """Compare a metric with its baseline."""
    worse = Interval(worse_ratio, worse_ratio, worse_ratio, 2)
    return Comparison(outcome, metric, 2.0 * worse_ratio, 2.0, "worse", worse)


def covered(
    comparison: Comparison, *waivers: Waiver, name: str = NAME, day: date = LAST_DAY
) -> bool:
    """Return whether a waiver covers a comparison on an A100."""
    _, waiver = apply_waivers(waivers, comparison, name, "a100-sxm-80gb-x1", day)
    return waiver is not None


def written(folder: Path, text: str) -> Path:
    """Write a waivers file."""
    path = folder / "waivers.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("ratio", "is_covered"), [(1.12, True), (1.15, True), (1.16, False)])
def test_a_regression_is_covered_up_to_the_bound(ratio: float, is_covered: bool) -> None:
    """A waiver covers a regression up to and including its bound."""
    assert covered(compared(ratio), WAIVER) is is_covered


def test_a_rise_from_nothing_has_no_ratio_to_cover() -> None:
    """No bound covers such a rise; the reason names the way out."""
    found, waiver = apply_waivers([WAIVER], compared(inf), NAME, "a100-sxm-80gb-x1", LAST_DAY)
    assert waiver is None
    assert found.reason.endswith("its waiver cannot cover a rise from 0: record a new baseline")


def test_only_what_the_waiver_names_is_covered() -> None:
    """Another metric or another benchmark fails as before."""
    assert not covered(compared(metric="load_s_per_batch"), WAIVER)
    assert not covered(compared(), WAIVER, name="perf_tests/test_loading.py::test_other")


@pytest.mark.parametrize("outcome", [kind for kind in Outcome if kind is not Outcome.REGRESSED])
def test_what_did_not_regress_needs_no_waiver(outcome: Outcome) -> None:
    """Other outcomes than REGRESSED stay as they are."""
    assert not covered(compared(outcome=outcome), WAIVER)


def test_the_last_day_is_covered_and_the_next_is_not() -> None:
    """A waiver expires at the end of its last day."""
    assert covered(compared(), WAIVER, day=LAST_DAY)
    assert not covered(compared(), WAIVER, day=date(2027, 1, 1))


@pytest.mark.parametrize(
    ("device", "is_covered"),
    [("", True), ("a100", True), ("a100-sxm-80gb-x1", True), ("h100", False), ("a10", False)],
)
def test_a_device_is_a_key_or_a_family(device: str, is_covered: bool) -> None:
    """A waiver without a device applies to every device."""
    waiver = Waiver(NAME, "load_cpu_ratio", 1.15, "why", LAST_DAY, device)
    assert covered(compared(), waiver) is is_covered


def test_the_file_is_read(tmp_path: Path) -> None:
    """Every field of the file is read."""
    path = written(tmp_path, TEXT + TEXT.replace("test_load_time", "test_b") + 'device = "a100"\n')
    other = Waiver(
        NAME.replace("test_load_time", "test_b"), "load_cpu_ratio", 1.15, WAIVER.reason, LAST_DAY,
        "a100",
    )  # fmt: skip
    assert load(path) == (WAIVER, other)


def test_no_file_is_no_waiver(tmp_path: Path) -> None:
    """A missing file and an empty one hold no waivers."""
    assert load(tmp_path / "waivers.toml") == ()
    assert load(written(tmp_path, "# none yet\n")) == ()


@pytest.mark.parametrize(
    ("old", "new", "field", "wanted", "found"),
    [
        ("bound = 1.15", "bound = 1.0", "bound of waiver 1", "above 1", "1.0"),
        ("bound = 1.15", "bound = nan", "bound of waiver 1", "above 1", "nan"),
        ("bound = 1.15", "bound = inf", "bound of waiver 1", "above 1", "inf"),
        ("bound = 1.15", "bound = true", "bound of waiver 1", "above 1", "True"),
        ("bound = 1.15", "bound = '2'", "bound of waiver 1", "above 1", "'2'"),
        ("bound = 1.15\n", "", "bound of waiver 1", "above 1", "none"),
        ("metric = ", "metrics = ", "key of waiver 1", "benchmark, metric, bound", "'metrics'"),
        ('"load_cpu_ratio"', "[1]", "metric of waiver 1", "load_cpu_ratio", "[1]"),
        ("load_cpu_ratio", "cpu", "metric of waiver 1", "load_cpu_ratio", "'cpu'"),
        ("decodes IPv6 options, see #123", " ", "reason of waiver 1", "one line", "' '"),
        ("decodes", r"\n", "reason of waiver 1", "one line", r"'\n IPv6"),
        (f'"{NAME}"', "3", "benchmark of waiver 1", "path::test", "3"),
        ("2026-12-31", "'2026-12-31'", "expires of waiver 1", "a date", "'2026-12-31'"),
        ("2026-12-31", "2026-12-31T10:00:00", "expires of waiver 1", "a date", "datetime."),
        ("2026-12-31", "2026-12-32", "file", "TOML", ""),
        ("2026-12-31", "2026-12-31\ndevice = ''", "device of waiver 1", "device key", "''"),
        ("[[waiver]]", "[waiver]", "waiver", "array of tables", "{'benchmark'"),
        ("[[waiver]]", "[[waivers]]", "key", "waiver", "'waivers'"),
        (TEXT, "waiver = [1]", "waiver 1", "a table", "1"),
    ],
)
def test_what_is_no_waiver_is_named(
    tmp_path: Path, old: str, new: str, field: str, wanted: str, found: str
) -> None:
    """The error names file, field, constraint and value."""
    assert old in TEXT
    path = written(tmp_path, TEXT.replace(old, new))
    with pytest.raises(InputError) as raised:
        load(path)
    error = raised.value
    assert (error.where, error.field) == (path, field)
    assert wanted in error.constraint
    assert str(error.found).startswith(found)


@pytest.mark.parametrize(
    ("first", "second"),
    [("", ""), ("", "a100"), ("a100", "a100"), ("a100", "a100-sxm"), ("a100-sxm-80gb-x1", "a100")],
)
def test_two_for_the_same_thing_are_refused(tmp_path: Path, first: str, second: str) -> None:
    """A waiver for a device conflicts with one for the device's family."""
    devices = [f'device = "{name}"\n' if name else "" for name in (first, second)]
    path = written(tmp_path, "".join(TEXT + device for device in devices))
    with pytest.raises(InputError, match=r"waivers\.toml.*two: load_cpu_ratio"):
        load(path)


def test_two_devices_may_have_one_each(tmp_path: Path) -> None:
    """Each device may have a waiver with its own bound."""
    path = written(tmp_path, f'{TEXT}device = "a100"\n{TEXT}device = "h100"\n')
    assert [waiver.device for waiver in load(path)] == ["a100", "h100"]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A folder in place of the file is an error."""
    (tmp_path / "waivers.toml").mkdir()
    with pytest.raises(InputError, match=r"waivers\.toml: file .*readable"):
        load(tmp_path / "waivers.toml")


def test_a_waiver_of_work_names_no_device(tmp_path: Path) -> None:
    """Work is the same on every device, so a waiver for one device would never apply."""
    of_work = TEXT.replace("load_cpu_ratio", "sent_bytes")
    assert load(written(tmp_path, of_work))[0].metric == "sent_bytes"
    with pytest.raises(InputError, match="device of waiver 1 must be absent for sent_bytes"):
        load(written(tmp_path, f'{of_work}device = "a100"'))
