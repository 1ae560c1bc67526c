"""Errors that are meant for the user."""

import pickle

from netpipe.errors import InputError


def test_an_input_error_names_everything_in_one_line() -> None:
    """The message has the file, the field, the constraint, the value found and the way out."""
    error = InputError("a.parquet", "rtt", "be finite", "nan", "Drop such rows")
    assert str(error) == "a.parquet: rtt must be finite; found nan. Drop such rows"


def test_an_input_error_crosses_between_processes() -> None:
    """A Grain worker's error arrives in the main process as itself."""
    error = InputError("a.parquet", "rtt", "be finite", "nan", "Drop such rows")
    arrived = pickle.loads(pickle.dumps(error))
    assert str(arrived) == str(error)
    assert (arrived.where, arrived.field) == ("a.parquet", "rtt")
