"""Errors that are meant for the user."""

import pickle

import pytest

from netpipe.errors import InputError, first_line


def test_an_input_error_names_everything_in_one_line() -> None:
    """The message has the file, the field, the constraint, the value found and the way out."""
    error = InputError("a.parquet", "rtt", "be finite", "nan", "Drop such rows")
    assert str(error) == "a.parquet: rtt must be finite; found nan. Drop such rows"


@pytest.mark.parametrize(
    ("text", "line"), [("first\nsecond", "first"), ("", "TimeoutError"), ("\n", "TimeoutError")]
)
def test_an_error_is_summarized_in_a_line(text: str, line: str) -> None:
    """An error without a text, such as a time-out of fsspec, is named by its type."""
    assert first_line(TimeoutError(*[text] * bool(text))) == line


def test_an_input_error_crosses_between_processes() -> None:
    """A Grain worker's error arrives in the main process as itself."""
    error = InputError("a.parquet", "rtt", "be finite", "nan", "Drop such rows")
    arrived = pickle.loads(pickle.dumps(error))
    assert str(arrived) == str(error)
    assert (arrived.where, arrived.field) == ("a.parquet", "rtt")
