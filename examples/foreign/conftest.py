"""The input and the step that netpipe measures."""

from collections.abc import Callable
from typing import Any

import pytest

from character_model import state_and_step
from text_windows import batches


@pytest.fixture
def netpipe_loader() -> Callable[[], Any]:
    """Return the factory of the input: called without arguments, it returns batches."""
    return batches


@pytest.fixture
def netpipe_step() -> Callable[[], Any]:
    """Return the factory of the training: called without arguments, it returns (state, step)."""
    return state_and_step
