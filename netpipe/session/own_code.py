"""Which modules belong to the harness, for finding the user's frames in a stack."""

import os
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[1]
_ROOMS: Final = ("device", "linting", "measuring", "session")
# The instruments in the trainer's loop call it.
_CLOCK: Final = str(_PACKAGE / "clock.py")

HARNESS_FOLDERS: Final = (*(str(_PACKAGE / room) + os.sep for room in _ROOMS), _CLOCK)
HARNESS_MODULES: Final = tuple(f"{_PACKAGE.name}.{room}." for room in _ROOMS)
