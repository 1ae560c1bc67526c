"""The looks of a drawing: one sheet for a light page and what differs on a dark one."""

from collections.abc import Mapping
from typing import Final

from netpipe.linting.picture.lettering import MONOSPACE, SANS

_LIGHT: Final[Mapping[str, str]] = {
    "page": "#ffffff",
    "ink": "#1f2933",
    "faint": "#616e7c",
    "box": "#ffffff",
    "edge": "#c3ccd5",
    "arrow": "#7b8794",
    "training": "#f3f5f7",
    "training-edge": "#d9e0e6",
    "workers": "#e7effc",
    "workers-edge": "#a9c3ee",
    "workers-ink": "#2456a6",
    "trainer": "#323f4b",
    "trainer-ink": "#ffffff",
    "error": "#fbdedb",
    "error-ink": "#a31d15",
    "warning": "#fdecc4",
    "warning-ink": "#7a4b00",
    "info": "#d8ecfb",
    "info-ink": "#0b558f",
}

_DARK: Final[Mapping[str, str]] = {
    "page": "#11161d",
    "ink": "#e4e9ef",
    "faint": "#9aa7b4",
    "box": "#232c37",
    "edge": "#465463",
    "arrow": "#8493a2",
    "training": "#19212a",
    "training-edge": "#2e3a46",
    "workers": "#172a47",
    "workers-edge": "#3a5f9c",
    "workers-ink": "#9cc0fa",
    "trainer": "#d5dce3",
    "trainer-ink": "#11161d",
    "error": "#5a1f1c",
    "error-ink": "#ffbdb6",
    "warning": "#4b3508",
    "warning-ink": "#ffd886",
    "info": "#123c5c",
    "info-ink": "#abd8ff",
}

_FILLS: Final[Mapping[str, str]] = {
    ".page": "page",
    ".box": "box",
    ".training": "training",
    ".workers": "workers",
    ".trainer": "trainer",
    ".head": "arrow",
    ".chip.error": "error",
    ".chip.warning": "warning",
    ".chip.info": "info",
    "text": "ink",
    "text.faint": "faint",
    "text.in-trainer": "trainer-ink",
    "text.on-workers": "workers-ink",
    "text.on-training": "faint",
    "text.error": "error-ink",
    "text.warning": "warning-ink",
    "text.info": "info-ink",
}

_STROKES: Final[Mapping[str, str]] = {
    ".box": "edge",
    ".box.error": "error-ink",
    ".box.warning": "warning-ink",
    ".box.info": "info-ink",
    ".training": "training-edge",
    ".workers": "workers-edge",
    ".arrow": "arrow",
}

HEADING_SIZE: Final = 15.0
CALL_SIZE: Final = 13.0
ARGUMENTS_SIZE: Final = 12.0
PLACE_SIZE: Final = 10.5
CHIP_SIZE: Final = 11.0
PROSE_SIZE: Final = 13.0
LABEL_SIZE: Final = 12.0

_SHAPES: Final = f"""
.netpipe text {{ font: {PROSE_SIZE:g}px {SANS} }}
.netpipe text.heading {{ font-size: {HEADING_SIZE:g}px; font-weight: 600 }}
.netpipe text.label {{ font-size: {LABEL_SIZE:g}px; font-weight: 600 }}
.netpipe text.call {{ font: 600 {CALL_SIZE:g}px {MONOSPACE} }}
.netpipe text.arguments {{ font: {ARGUMENTS_SIZE:g}px {MONOSPACE} }}
.netpipe text.place {{ font: {PLACE_SIZE:g}px {MONOSPACE} }}
.netpipe text.rule {{ font: 600 {CHIP_SIZE:g}px {MONOSPACE} }}
.netpipe .again {{ stroke-dasharray: 4 3 }}
.netpipe .arrow {{ fill: none; stroke-width: 1.5 }}
.netpipe tspan {{ font-weight: 600 }}
"""


def _colours(palette: Mapping[str, str]) -> str:
    fills = (f".netpipe {what} {{ fill: {palette[name]} }}" for what, name in _FILLS.items())
    strokes = (f".netpipe {what} {{ stroke: {palette[name]} }}" for what, name in _STROKES.items())
    return "\n".join([*fills, *strokes])


STYLE: Final = (
    f"{_SHAPES}{_colours(_LIGHT)}\n@media (prefers-color-scheme: dark) {{\n{_colours(_DARK)}\n}}\n"
)
