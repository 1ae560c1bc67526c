"""Pages without drawings, which take most of the time."""

from typing import IO
from unittest.mock import MagicMock

import pytest

from netpipe.reporting.plots import canvas


def save(stream: IO[str], **_: object) -> None:
    """Write an empty drawing."""
    stream.write("<svg></svg>")


@pytest.fixture
def _no_drawings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave every drawing empty."""
    figure = MagicMock()
    figure.savefig = save
    axes = figure.add_axes.return_value
    axes.get_xlim.return_value = (0.0, 1.0)
    axes.hist.return_value = ([1.0],)
    monkeypatch.setattr(canvas, "Figure", lambda: figure)
