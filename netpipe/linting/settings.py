"""The lint settings of a project: `[tool.netpipe.lint]` in its pyproject.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from netpipe.errors import InputError
from netpipe.linting.request import INTENTS
from netpipe.linting.rules import RULE_NAMES, split_silence

_TABLE: Final = "tool.netpipe.lint"


@dataclass(frozen=True)
class LintSettings:
    """What `[tool.netpipe.lint]` sets.

    Attributes:
        silences: Maps a rule's name, or "RULE of FUNCTION", to the reason why it is silenced.
    """

    intent: str = "throughput"
    silences: Mapping[str, str] = field(default_factory=dict)


def read_lint_settings(folder: Path) -> LintSettings:
    """Read the nearest pyproject.toml, in `folder` or above it; the defaults without settings.

    Raises:
        InputError: The file is not TOML, or the table holds an unknown key or a wrong value.
    """
    paths = (parent / "pyproject.toml" for parent in (folder, *folder.parents))
    path = next(filter(Path.is_file, paths), None)
    if path is None:
        return LintSettings()
    table = _read_table(path)
    for key in table:
        if key not in ("intent", "silence"):
            raise InputError(path, f"{_TABLE} key", "be intent or silence", repr(key))
    intent, silences = table.get("intent", "throughput"), table.get("silence", {})
    if intent not in INTENTS:
        raise InputError(path, f"{_TABLE}.intent", f"be one of {', '.join(INTENTS)}", repr(intent))
    _check_silences(path, silences)
    return LintSettings(intent, silences)


def _read_table(path: Path) -> Mapping[str, Any]:
    try:
        table: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(path, "file", "be readable", error.strerror) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(path, "file", "be TOML", error) from error
    for name in _TABLE.split("."):
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise InputError(path, _TABLE, "be a table", repr(table))
    return dict(table)


def _check_silences(path: Path, silences: object) -> None:
    where = f"{_TABLE}.silence"
    if not isinstance(silences, dict):
        raise InputError(path, where, "be a table", repr(silences))
    for silence, reason in silences.items():
        if split_silence(silence)[0] not in RULE_NAMES:
            known = ", ".join(RULE_NAMES)
            raise InputError(path, f"{where} key", f"be one of {known}", repr(silence))
        if not isinstance(reason, str) or not reason.strip():
            raise InputError(path, f"{where}.{silence}", "be the reason, as text", repr(reason))
