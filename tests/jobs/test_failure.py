"""Exceptions as they are formatted for the user."""

import json
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import netpipe
from netpipe.errors import LoaderFailedError
from netpipe.jobs.failure import HARNESS_FOLDERS, format_failure, format_frames


def caught(function: Callable[[], object]) -> Exception:
    """Return the ValueError that a function raises."""
    with pytest.raises(ValueError, match="Expecting") as caught:
        function()
    return caught.value


def deep(levels: int) -> None:
    """Fail some calls further down."""
    if levels:
        deep(levels - 1)
    json.loads("{")


def test_the_type_and_the_text_come_first() -> None:
    """The lines of the user's own files follow; lines of libraries are omitted."""
    first, *lines = format_failure(caught(lambda: deep(0))).splitlines()
    assert first.startswith("JSONDecodeError: Expecting")
    assert lines[-1].strip() == 'json.loads("{")'
    assert {line.split(",")[0].strip() for line in lines if "File" in line} == {
        f'File "{__file__}"'
    }


def test_only_the_last_frames_are_formatted() -> None:
    """However deep the stack is, four frames are shown."""
    assert format_failure(caught(lambda: deep(50))).count(f'File "{__file__}"') == 4


def test_without_frames_of_the_user_the_last_of_all_are_formatted() -> None:
    """A stack of libraries alone is shown too."""
    foreign = traceback.StackSummary.from_list([("<string>", n, "run", "x") for n in range(9)])
    lines = format_frames(foreign).splitlines()[::2]
    assert lines == [f'  File "<string>", line {n}, in run' for n in (5, 6, 7, 8)]


def test_a_folder_whose_name_begins_as_ours_is_the_users() -> None:
    """Beside netpipe, netpipe_mine is not netpipe."""
    ours = str(Path(netpipe.__file__).parent)
    names = [f"{ours}_mine/train.py", f"{ours}/cli.py"]
    frames = traceback.StackSummary.from_list([(name, 1, "run", "x") for name in names])
    assert format_frames(frames).splitlines()[0] == f'  File "{names[0]}", line 1, in run'
    assert len(format_frames(frames).splitlines()) == 2


def test_the_innermost_lines_can_be_asked_for_too() -> None:
    """The innermost lines come last, in whichever file they are, and none comes twice."""
    names = [__file__, "<a>", "<b>", "<c>"]
    frames = traceback.StackSummary.from_list([(name, 1, "run", "x") for name in names])
    files = [line.split('"')[1] for line in format_frames(frames, innermost=2).splitlines()[::2]]
    assert files == [__file__, "<b>", "<c>"]
    files = [line.split('"')[1] for line in format_frames(frames, innermost=4).splitlines()[::2]]
    assert files == names


def test_the_exception_of_a_loader_is_formatted() -> None:
    """The wrapper's message comes first; the lines are those of its cause."""
    failed = LoaderFailedError("3 batches, then ValueError: bad")
    failed.__cause__ = caught(lambda: deep(0))
    first, *lines = format_failure(failed).splitlines()
    assert first == str(failed)
    assert lines[-1].strip() == 'json.loads("{")'


def test_an_exception_without_a_text_is_named() -> None:
    """An exception whose `__str__` fails is shown by its type."""

    class MuteError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert format_failure(MuteError()) == "MuteError: <its text cannot be read>"


def test_a_long_text_is_cut() -> None:
    """A text of megabytes does not fill the terminal."""
    assert len(format_failure(ValueError("x" * 3_000_000))) < 20_000


def test_the_packages_of_the_harness_exist() -> None:
    """A renamed package would count as the user's code."""
    assert all(Path(place).exists() for place in HARNESS_FOLDERS)
