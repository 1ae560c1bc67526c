"""The parts of a start, and the bound for a slow one."""

import pytest

from netpipe.results.start_up import START_PARTS, StartUp


def test_a_start_is_as_long_as_its_parts() -> None:
    """A part that was not seen adds nothing."""
    assert StartUp(1.0, 2.0).total_s == 3.0
    assert StartUp(1.0, 2.0, 4.0, 8.0, 16.0).total_s == 31.0


def test_every_part_has_a_name_and_a_remedy() -> None:
    """The table has as many rows as a start has parts."""
    assert set(START_PARTS) == set(vars(StartUp(1.0, 2.0)))


@pytest.mark.parametrize("part", START_PARTS)
def test_a_slow_start_names_its_largest_part(part: str) -> None:
    """The message has the part's seconds, the total, and the remedy of this part."""
    why = StartUp(**{**dict.fromkeys(START_PARTS, 2.0), part: 40.0}).why_slow()
    name, remedy = START_PARTS[part]
    assert f"is {name}, 40 of 48 s" in why
    assert why.endswith(f": {remedy}")


def test_what_was_not_split_has_no_remedy_of_a_part() -> None:
    """A start that was not split points to `netpipe diagnose`."""
    why = StartUp(1.0, 30.0, 1.0).why_slow()
    assert "is work after loader(), 30 of 32 s: netpipe diagnose splits it" in why


def test_a_start_may_be_slow_by_its_imports() -> None:
    """Imports count as a part of the start."""
    assert StartUp(1.0, 3.0, 7.0).why_slow().startswith("the first batch took 11 s")
    assert StartUp(1.0, 3.0, 6.0).why_slow() == ""
    assert StartUp(1.0, 3.0).why_slow() == ""


def test_a_later_start_may_be_the_slow_one() -> None:
    """A slow later start is reported with the parts of the first one."""
    why = StartUp(1.0, 3.0).why_slow(longest_s=60.0)
    assert why.startswith("the first batch took 60 s")
    assert "3 of 4 s" in why
